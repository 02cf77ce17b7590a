// Aim: the sandbox carries the programs that monitors are written for, a browser with its own sandbox on, and
// holds their connections, through the proxy and without, by every spelling of an address.
import { Resolver } from 'node:dns/promises'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openRunProxy, type RunProxy } from '../../src/sandbox/egress/run-proxy.ts'
import { NameRelay } from '../../src/sandbox/supervisor/names.ts'
import { startAuthorizingProxy } from '../support/network/authorizing-proxy.ts'
import { processesWith } from '../support/sandbox/stand-in.ts'
import { sandboxed } from '../support/sandbox/sandboxed.ts'
import { startDnsServer } from '../support/monitors/dns/dns-server.ts'
import { fixedResolver, testContext } from '../support/monitors/monitor-context.ts'
import { missing, withoutNamespaces } from '../support/needs.ts'

const names = { 'site.test': ['127.0.0.1'], 'metadata.test': ['169.254.169.254'] }
const needsBrowser = missing('chromium')
const needsNamespaces = withoutNamespaces()
let site: Server
let port: number
let proxy: RunProxy
/** Addresses of the site that were asked for. */
const asked: string[] = []

beforeAll(async () => {
  site = createServer((request, response) => {
    asked.push(request.url ?? '')
    // An answer that never comes.
    if (request.url === '/stalled.png') return
    if (request.url === '/away')
      response.setHeader('location', 'http://metadata.test/').statusCode = 302
    response.setHeader('content-type', 'text/html')
    response.end(`<h1>Hello</h1><script>document.body.append('script ran')</script>
<img src="http://169.254.169.254/latest"><img src="http://metadata.test/">`)
  })
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve))
  port = (site.address() as AddressInfo).port
  proxy = await openRunProxy(testContext({ resolver: fixedResolver(names) }).dial)
})
afterAll(async () => {
  await proxy.close()
  site.closeAllConnections()
  site.close()
})

test('shells fork while what they forked before is ending', async () => {
  // Who waits for the supervisor is interrupted by that, and shells take an interrupted fork for a failed one.
  const pipes = 'for at in $(seq 150); do echo line | sort | head -1 >> out || exit 1; done'
  const end = await sandboxed({ command: '/bin/sh', args: () => ['-c', `${pipes}; wc -l < out`] })
  expect(end.tail).toEqual({ stdout: '150\n', stderr: '' })
})

const SPELLINGS = [
  '169.254.169.254',
  '2852039166',
  '0xa9fea9fe',
  '0251.0376.0251.0376',
  '169.254.43518',
  '::ffff:169.254.169.254',
  '::169.254.169.254',
  '2002:a9fe:a9fe::1',
  '64:ff9b::a9fe:a9fe',
  'fe80::1',
  'fd00:ec2::254',
  '100.100.100.200',
  '198.51.100.7',
]

describe('a Node script', () => {
  test('connects by itself to what is allowed, and to nothing else by any spelling', async () => {
    const end = await sandboxed({
      args: () => [
        '-e',
        `const net = require('node:net')
const reach = (host, port) => new Promise((resolve) => net.connect({ host, port })
  .on('connect', function () { this.destroy(); resolve('GOT') }).on('error', (e) => resolve(e.code)))
;(async () => { for (const host of process.argv.slice(2)) console.log(host, await reach(host, 80))
console.log('site', await reach('localhost', Number(process.argv[1]))) })()`,
        String(port),
        ...SPELLINGS,
      ],
      blocked: ['198.51.100.0/24'],
    })
    const lines = end.tail.stdout.trim().split('\n')
    expect(lines).toEqual([...SPELLINGS.map((host) => `${host} EACCES`), 'site GOT'])
    expect(end.blocked).toHaveLength(SPELLINGS.length)
    const ipv6 = end.blocked.map(({ address }) => address).filter((one) => one.includes(':'))
    expect(ipv6).toEqual([
      '::ffff:169.254.169.254',
      '::a9fe:a9fe',
      '2002:a9fe:a9fe::1',
      '64:ff9b::a9fe:a9fe',
      'fe80::1',
      'fd00:ec2::254',
    ])
    expect(end.blocked.at(-1)).toEqual({
      address: '198.51.100.7',
      port: 80,
      network: '198.51.100.0/24',
    })
  })

  test('gets no datagram sockets, and no way around connecting', async () => {
    const end = await sandboxed({
      args: () => [
        '-e',
        `const udp = require('node:dgram').createSocket('udp4')
udp.on('error', (e) => console.log(e.code)); udp.send('x', 53, '127.0.0.1', (e) => console.log(e?.code ?? 'GOT'))`,
      ],
    })
    expect(end.tail.stdout).toBe('EACCES\n')
  })

  test('fetches through the proxy: the agent resolves names, the policy applies to redirects', async () => {
    const end = await sandboxed({
      args: () => [
        '-e',
        `const get = (url) => fetch(url).then((r) => r.status, (e) => /\\((\\d+)\\)/.exec(e.cause?.cause?.message)?.[1])
;(async () => { for (const url of process.argv.slice(1)) console.log(await get(url)) })()`,
        `http://site.test:${port}/`,
        `http://site.test:${port}/away`,
        'http://169.254.169.254/',
      ],
      environment: proxy.environment,
    })
    expect(end.tail.stdout).toBe('200\n403\n403\n')
    expect(proxy.refusals.map(({ host }) => host)).toContain('metadata.test')
  })
})

describe.skipIf(needsBrowser !== undefined)(`Chromium ${needsBrowser ?? ''}`, () => {
  const chromium = '/usr/bin/chromium'
  const flags = [
    '--headless',
    '--disable-dev-shm-usage',
    '--disable-gpu',
    '--no-first-run',
    ...(needsNamespaces === undefined ? [] : ['--no-sandbox']),
  ]

  test('loads a page by itself, the policy applies to its links, and nothing of it is left', async () => {
    const end = await sandboxed({
      command: chromium,
      args: () => [...flags, '--dump-dom', `http://localhost:${port}/`],
    })
    expect(end.tail.stdout).toMatch(/Hello.*script ran/s)
    expect(end).toMatchObject({ outcome: 'exited', exitCode: 0, leftBehind: 0 })
    expect(end.blocked[0]).toMatchObject({ address: '169.254.169.254', port: 80 })
    expect(processesWith(end.folder)).toEqual([])
  })

  test('loads a page through the proxy, and the policy applies to its links there', async () => {
    const front = await startAuthorizingProxy(proxy)
    const end = await sandboxed({
      command: chromium,
      args: () => [
        ...flags,
        `--proxy-server=${front.server}`,
        '--proxy-bypass-list=<-loopback>',
        '--dump-dom',
        `http://site.test:${port}/`,
      ],
    })
    front.close()
    expect(end.tail.stdout).toMatch(/Hello.*script ran/s)
    expect(end).toMatchObject({ outcome: 'exited', blocked: [] })
    const refused = proxy.refusals.map(({ host, failure }) => `${host} ${failure.code}`)
    expect(refused).toContain('169.254.169.254 ADDRESS_BLOCKED')
    expect(refused).toContain('metadata.test ADDRESS_BLOCKED')
  })

  test.skipIf(needsNamespaces !== undefined)(
    `has its own sandbox on, and is ended with all that it started ${needsNamespaces ?? ''}`,
    async () => {
      const stop = new AbortController()
      let renderer = ''
      const timer = setInterval(() => {
        renderer ||= rendererStatus()
        if (renderer !== '' && asked.includes('/stalled.png')) stop.abort()
      }, 50)
      const end = await sandboxed({
        command: chromium,
        args: (folder) => [...flags, '--dump-dom', `file://${folder}/page.html`],
        prepare: (folder) => {
          const image = `<img src="http://127.0.0.1:${port}/stalled.png">`
          writeFileSync(join(folder, 'page.html'), image)
        },
        signal: stop.signal,
        ask: { signal: 'SIGTERM', to: 'leader', graceMs: 100 },
      })
      clearInterval(timer)
      expect(end).toMatchObject({ outcome: 'cancelled', leftBehind: 0 })
      expect(processesWith(end.folder)).toEqual([])
      // Numbers of its own in a namespace of its own, and a filter of its own above the sandbox's.
      expect(renderer).toMatch(/^NSpid:(\t\d+){2,}$/m)
      expect(renderer).toMatch(/^Seccomp_filters:\t[2-9]$/m)
    },
  )
})

/** What the system says of a page's process that is in a sandbox, or nothing. */
function rendererStatus(): string {
  for (const name of readdirSync('/proc').filter((one) => /^\d+$/.test(one))) {
    try {
      if (!readFileSync(`/proc/${name}/cmdline`, 'latin1').includes('--type=renderer')) continue
      const status = readFileSync(`/proc/${name}/status`, 'latin1')
      if (/^Seccomp_filters:\t[2-9]/m.test(status)) return status
    } catch {
      continue
    }
  }
  return ''
}

describe('names', () => {
  test('are asked for over TCP and carried on by UDP', async () => {
    await using server = await startDnsServer({
      'a.test': ['192.0.2.1'],
      'failed.test': 'SERVFAIL',
    })
    const [address = '', serverPort] = server.authority.split(':')
    const relay = new NameRelay([address], Number(serverPort))
    // Read when the resolver is made.
    process.env['RES_OPTIONS'] = 'use-vc'
    const overTcp = new Resolver({ tries: 1 })
    delete process.env['RES_OPTIONS']
    overTcp.setServers([`127.0.0.1:${await relay.port('127.0.0.1')}`])
    expect(await overTcp.resolve4('a.test')).toEqual(['192.0.2.1'])
    await expect(overTcp.resolve4('none.test')).rejects.toMatchObject({ code: 'ENOTFOUND' })
    await expect(overTcp.resolve4('failed.test')).rejects.toMatchObject({ code: 'ESERVFAIL' })
    relay.close()
  })
})
