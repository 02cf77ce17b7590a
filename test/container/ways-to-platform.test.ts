// Aim: the image reaches its platform from typical company networks: through a proxy as the only egress, over TLS of a
// private authority, and without IPv4; errors say what is missing.
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createAuthority } from '../support/network/certificates.ts'
import { startConnectProxy } from '../support/network/connect-proxy.ts'
import { type Contained, startContainer } from '../support/container/contained.ts'
import { agentIn, platformAt, unanswered, watching } from '../support/container/contained-agent.ts'
import { createNetwork, engine } from '../support/container/container-engine.ts'
import { startPlatformContainer } from '../support/container/contained-platform.ts'
import { eventually } from '../support/eventually.ts'
import { FAKE_KEY } from '../support/agent/fake-platform.ts'
import { needImages } from '../support/container/images.ts'
import { missing } from '../support/needs.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

needImages('agent-uptime', 'platform')
const noTool = missing('openssl')
beforeEach(({ skip }) => skip(noTool !== undefined, noTool))

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

/** Monitors of an agent's own container. */
const ITSELF = watching('http://127.0.0.1:8081/health')

/** The platform's authority in a file, and its path in a container. */
function authorityFile(ca: string) {
  const source = join(temporaryFolder(), 'ca.pem')
  writeFileSync(source, ca, { mode: 0o644 })
  return { files: { '/etc/vedette/ca.pem': source }, path: '/etc/vedette/ca.pem' }
}

async function isNotReady(agent: Contained, reason: RegExp): Promise<boolean> {
  const { status, text } = await agent.probe('/-/readiness')
  return status === 503 && reason.test(text)
}

describe('a network with a proxy as its only egress', () => {
  // The platform listens on this machine's loopback, out of reach of containers; only the proxy knows the name.
  async function behindProxy() {
    const network = await createNetwork()
    const authority = createAuthority()
    const platform = await platformAt('127.0.0.1', authority.issue({ names: 'DNS:platform.test' }))
    platform.give(ITSELF)
    const proxy = await startConnectProxy({
      host: network.gateway,
      names: { 'platform.test': '127.0.0.1' },
      credentials: 'user:p@ss',
    })
    closing.push(() => proxy.close())
    const { files, path } = authorityFile(authority.ca)
    const env = {
      PLATFORM_URL: `https://platform.test:${platform.port}`,
      NODE_EXTRA_CA_CERTS: path,
    }
    return { network, platform, proxy, options: { files, env } }
  }

  test('an agent syncs and delivers through it', async () => {
    const { network, platform, proxy, options } = await behindProxy()
    const HTTPS_PROXY = `http://user:p%40ss@${proxy.authority}`
    const env = { ...options.env, HTTPS_PROXY }
    const agent = await agentIn(network, platform, { ...options, env })
    expect(await platform.result(() => true)).toMatchObject({ verdict: 'passed' })
    expect(new Set(proxy.requestLines)).toEqual(new Set([`CONNECT platform.test:${platform.port}`]))
    expect(await agent.stop()).toMatchObject({ code: 0 })
    expect(agent.said()).not.toContain('p%40ss')
  })

  test('an agent with a wrong password reports that the proxy refuses it', async () => {
    const { network, platform, proxy, options } = await behindProxy()
    const env = { ...options.env, HTTPS_PROXY: `http://user:wrong@${proxy.authority}` }
    const agent = await agentIn(network, platform, { ...options, env })
    await eventually(() => isNotReady(agent, /proxy.*407|407.*proxy/i))
    expect(platform.syncs).toEqual([])
  })
})

describe('a platform with a certificate of a private authority', () => {
  async function ofOwnAuthority() {
    const network = await createNetwork()
    const authority = createAuthority()
    const pair = authority.issue({ names: `IP:${network.gateway}` })
    const platform = await platformAt(network.gateway, pair)
    platform.give(ITSELF)
    return { network, platform, ...authorityFile(authority.ca) }
  }

  test('is trusted where NODE_EXTRA_CA_CERTS names the authority', async () => {
    const { network, platform, files, path } = await ofOwnAuthority()
    const env = { NODE_EXTRA_CA_CERTS: path }
    const agent = await agentIn(network, platform, { files, env })
    expect(await platform.result(() => true)).toMatchObject({ verdict: 'passed' })
    expect(await agent.stop()).toMatchObject({ code: 0 })
  })

  test('is not trusted otherwise: not ready, and the key is not sent', async () => {
    const { network, platform } = await ofOwnAuthority()
    const agent = await agentIn(network, platform)
    await eventually(() => isNotReady(agent, /certificate/))
    expect(platform.syncs).toEqual([])
  })
})

const noNamespaces = process.getuid?.() === 0 ? missing('ip') : 'needs root, to remove IPv4'

describe('a network without IPv4', () => {
  beforeEach(({ skip }) => skip(noNamespaces !== undefined, noNamespaces))

  /** A container whose network others share, with no IPv4 address except loopback. */
  async function withoutIpv4() {
    const network = await createNetwork({ ipv6: true })
    const holder = await startContainer({
      image: 'agent-uptime',
      network: network.name,
      entrypoint: ['tini', '--', 'sleep', '600'],
    })
    const { State } = await (await engine()).getContainer(holder.id).inspect()
    const nsenterArgs = ['--net', '--target', String(State.Pid)]
    execFileSync('nsenter', [...nsenterArgs, 'ip', '-4', 'address', 'flush', 'dev', 'eth0'])
    const addresses = execFileSync('nsenter', [...nsenterArgs, 'ip', '-6', '-o', 'address'], {
      encoding: 'utf8',
    })
    const address = /inet6 (fd00:[^/]+)/.exec(addresses)?.[1] ?? ''
    return { network, holder, address }
  }

  test('reaches the platform, and monitors of every kind reach their targets', async () => {
    const { network, holder } = await withoutIpv4()
    const platform = await eventually(() => platformAt(network.gateway6).catch(() => undefined))
    const hostname = network.gateway6
    const site = await unanswered(hostname)
    site.answer()
    const family = { ipFamily: 'IPv6' }
    platform.give([
      { request: { url: site.url, ...family } },
      { checkType: 'TCP', request: { hostname, port: platform.port, ...family } },
      { checkType: 'ICMP', request: { hostname, pingCount: 2, ...family } },
      ...['ICMP', 'TCP', 'UDP'].map((protocol) => ({
        checkType: 'TRACEROUTE',
        frequencyOffset: 30,
        request: {
          url: hostname,
          protocol,
          ...family,
          ...(protocol === 'TCP' && { port: platform.port }),
        },
      })),
    ])
    const agent = await startContainer({
      image: 'agent-uptime',
      network: `container:${holder.id}`,
      env: { API_KEY: FAKE_KEY, PLATFORM_URL: platform.url },
    })
    await eventually(() => platform.results.length === 6)
    expect(platform.results.map(({ verdict, failures }) => failures?.[0]?.code ?? verdict)).toEqual(
      Array(6).fill('passed'),
    )
    expect(await agent.stop()).toMatchObject({ code: 0 })
  })

  test('reaches a platform by a name that also has an IPv4 address; probes answer', async () => {
    const { network, holder, address } = await withoutIpv4()
    const platform = await startPlatformContainer(network.name)
    const { key } = await platform.createLocation('six')
    await startContainer({
      image: 'agent-uptime',
      network: `container:${holder.id}`,
      env: { API_KEY: key, PLATFORM_URL: platform.url },
    })
    const url = `http://[${address}]:8081`
    const ready = () => fetch(`${url}/-/readiness`).catch(() => undefined)
    await eventually(async () => (await ready())?.status === 200)
    expect((await fetch(`${url}/-/liveness`)).status).toBe(200)
  })
})
