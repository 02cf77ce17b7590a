// Aim: `vedette doctor` reports the state of the connection to the platform, the settings and the health port, with
// the fix; it ends in time even if a peer is unresponsive, shows no secret, and does not disturb a running agent.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { doctorJson } from '../../../src/cli/doctor/report.ts'
import { startAgentProcess } from '../../support/agent/agent-process.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { startConnectProxy } from '../../support/network/connect-proxy.ts'
import { agentOf, examine, onFile } from '../../support/agent/doctor-process.ts'
import { FAKE_KEY, json, startFakePlatform } from '../../support/agent/fake-platform.ts'
import { withoutEchoes } from '../../support/needs.ts'
import { startVedette } from '../../support/platform/platform-process.ts'
import { temporaryFile, temporaryFolder } from '../../support/temporary-folder.ts'
import { startHttpServer } from '../../support/test-server.ts'

const authority = createAuthority()
const PASSWORD = 'planted-proxy-password'
const noEchoes = withoutEchoes()
/** Expected broken findings with valid settings. */
const BROKEN_HERE = noEchoes === undefined ? [] : ['icmp', 'traceroute']

describe('when all that is needed works', () => {
  test('it reports that, with one call that registers no agent, and leaves nothing behind', async ({
    skip,
  }) => {
    skip(noEchoes !== undefined, noEchoes)
    await using platform = await startFakePlatform()
    const folder = temporaryFolder()
    const said = await examine({ env: { ...agentOf(platform.url), DATA_DIR: folder } })
    expect(said).toMatchObject({ code: 0, works: true, stderr: '' })
    for (const id of ['platform', 'clock', 'disk', 'icmp', 'traceroute'] as const) {
      expect([id, said.found(id)?.standing]).toEqual([id, 'works'])
    }
    expect([platform.presences.length, platform.syncs.length]).toEqual([1, 0])
    expect(readdirSync(folder)).toEqual([])
  })

  test('without a terminal the table has no colours', async ({ skip }) => {
    skip(noEchoes !== undefined, noEchoes)
    await using platform = await startFakePlatform()
    const { code, stdout } = await examine({ env: agentOf(platform.url), args: [] })
    expect(code).toBe(0)
    expect(stdout).toMatch(/^✓ platform {2,}http:\/\/127\.0\.0\.1:\d+ accepts API_KEY/m)
    expect(stdout).toMatch(/^All that is needed works/m)
    expect(stdout).not.toContain('\u001B')
  })

  test('a part that the image does not have is absent, not broken', async () => {
    const env = { ...onFile(), VEDETTE_IMAGE: 'agent-uptime' }
    const said = await examine({ env })
    expect(said.broken).toEqual(BROKEN_HERE)
    for (const id of ['engines', 'runtimes', 'sandbox', 'browser', 'platform'] as const) {
      expect([id, said.found(id)?.standing]).toEqual([id, 'absent'])
    }
    expect(said.found('engines')?.says).toContain('not in this image')
  })
})

describe('the platform', () => {
  test.each([
    ['of no location', 'unknown', /does not accept API_KEY/],
    ['that was revoked', 'revoked', /revoked/],
  ])('refuses a key %s, which is not shown', async (_, reason, says) => {
    await using platform = await startFakePlatform()
    platform.misbehave((__, response) => {
      json(response, { message: `No: ${FAKE_KEY}`, attributes: { reason } }, 401)
      return true
    })
    const said = await examine({ env: agentOf(platform.url) })
    expect(said.code).toBe(1)
    expect(said.found('platform')).toMatchObject({
      standing: 'broken',
      says: expect.stringMatching(says) as string,
      fix: expect.stringContaining('API_KEY') as string,
    })
    expect(said.stdout + said.stderr).not.toContain(FAKE_KEY)
  })

  test('has a proxy before it that repeats the key: the key is scrubbed', async () => {
    await using platform = await startFakePlatform()
    platform.misbehave((_, response) => {
      json(response, { message: `not with ${FAKE_KEY}` }, 403)
      return true
    })
    const said = await examine({ env: agentOf(platform.url) })
    expect(said.found('platform')?.says).toContain('not with [scrubbed]')
    expect(said.stdout).not.toContain(FAKE_KEY)
  })

  test('is another server that answers 200', async () => {
    await using server = await startHttpServer((_, response) => response.end('<p>hello'))
    const said = await examine({ env: agentOf(`http://${server.authority}`) })
    expect(said.code).toBe(1)
    expect(said.found('platform')).toMatchObject({ standing: 'broken', facts: { status: 200 } })
  })

  test.each([
    ['behind', 3600, /3600 s behind|3601 s behind|3599 s behind/],
    ['ahead of', -3600, /36\d\d s ahead|3599 s ahead/],
  ])('has a clock that this one is %s: a warning', async (_, seconds, says) => {
    await using platform = await startFakePlatform()
    platform.misbehave((__, response) => {
      response.setHeader('date', new Date(Date.now() + seconds * 1000).toUTCString())
      json(response, { live: false })
      return true
    })
    const said = await examine({ env: agentOf(platform.url) })
    expect(said.broken).toEqual(BROKEN_HERE)
    expect(said.found('clock')).toMatchObject({
      standing: 'warning',
      says: expect.stringMatching(says) as string,
      fix: expect.stringContaining('set-ntp') as string,
    })
  })
})

describe('TLS', () => {
  test('with a certificate of an unknown authority: the fix names the authority', async () => {
    await using platform = await startFakePlatform(authority.selfSigned())
    const said = await examine({ env: agentOf(platform.url) })
    expect(said.code).toBe(1)
    expect(said.found('tls')).toMatchObject({
      standing: 'broken',
      fix: expect.stringContaining('NODE_EXTRA_CA_CERTS') as string,
    })
    expect(said.found('platform')?.standing).toBe('broken')
  })

  test('with that fix it works', async () => {
    await using platform = await startFakePlatform(authority.issue())
    const NODE_EXTRA_CA_CERTS = temporaryFile('ca.pem', authority.ca)
    const said = await examine({ env: { ...agentOf(platform.url), NODE_EXTRA_CA_CERTS } })
    expect([said.broken, said.found('tls')?.standing]).toEqual([BROKEN_HERE, 'works'])
  })

  test('with a file of authorities without a certificate: reported, although Node.js ignores it', async () => {
    await using platform = await startFakePlatform()
    const NODE_EXTRA_CA_CERTS = temporaryFile('ca.pem', 'none\n')
    const said = await examine({ env: { ...agentOf(platform.url), NODE_EXTRA_CA_CERTS } })
    expect([said.code, said.found('tls')?.standing]).toEqual([1, 'broken'])
  })

  test('to a port without TLS: the fix is http://', async () => {
    await using platform = await startFakePlatform()
    const said = await examine({ env: agentOf(platform.url.replace('http:', 'https:')) })
    expect(said.found('tls')?.fix).toContain(`PLATFORM_URL=${platform.url}`)
  })
})

describe('the proxy', () => {
  test.each([
    ['in a tunnel', () => authority.selfSigned()],
    ['that forwards', () => undefined],
  ])('requires other credentials, %s; the given ones are not shown', async (_, pair) => {
    await using platform = await startFakePlatform(pair())
    await using proxy = await startConnectProxy({ credentials: 'user:right' })
    const HTTPS_PROXY = `http://user:${PASSWORD}@${proxy.authority}`
    for (const args of [['--json'], []]) {
      const said = await examine({ env: { ...agentOf(platform.url), HTTPS_PROXY }, args })
      expect(said.code).toBe(1)
      expect(said.stdout).toContain('http://<user>:<password>@<host>:<port>')
      expect(said.stdout).toMatch(/"id":"proxy","standing":"broken"|^✗ proxy/m)
      expect(said.stdout + said.stderr).not.toContain(PASSWORD)
    }
  })

  test('leads to the platform', async () => {
    await using platform = await startFakePlatform()
    await using proxy = await startConnectProxy({ credentials: `user:${PASSWORD}` })
    const HTTPS_PROXY = `http://user:${PASSWORD}@${proxy.authority}`
    const said = await examine({ env: { ...agentOf(platform.url), HTTPS_PROXY } })
    expect(said.broken).toEqual(BROKEN_HERE)
    expect(said.found('proxy')).toMatchObject({ standing: 'works' })
    expect(proxy.requestLines).toHaveLength(1)
    expect(said.stdout).not.toContain(PASSWORD)
  })

  test('is not used when NO_PROXY names the platform', async () => {
    await using platform = await startFakePlatform()
    const env = {
      ...agentOf(platform.url),
      HTTPS_PROXY: 'http://127.0.0.1:1',
      NO_PROXY: '127.0.0.1',
    }
    const said = await examine({ env })
    expect([said.broken, said.found('proxy')?.standing]).toEqual([BROKEN_HERE, 'absent'])
    expect(said.found('proxy')?.says).toContain('NO_PROXY')
  })
})

describe('settings', () => {
  test.each([
    ['without a source of monitors', {}],
    ['with a key that is none', { PLATFORM_URL: 'http://127.0.0.1:1', API_KEY: 'none' }],
  ])('%s are refused as by the agent, and the other probes run', async (_, env) => {
    const [doctor, agent] = await Promise.all([
      examine({ env }),
      startVedette(['agent'], env).ended,
    ])
    expect([doctor.code, doctor.works]).toEqual([2, false])
    expect(doctor.stderr).toBe(agent.stderr)
    const { says = '', fix = '' } = doctor.found('settings') ?? {}
    expect(agent.stderr).toContain(says)
    expect(fix).toContain(says.split(' ')[0])
    const standings = (['settings', 'platform', 'disk'] as const).map(
      (id) => doctor.found(id)?.standing,
    )
    expect(standings).toEqual(['broken', 'absent', 'works'])
  })

  test('with an invalid monitors file: the fix is the command that names each problem', async () => {
    const path = temporaryFile('monitors.yaml', 'monitors: [{ name: a }]\n')
    const said = await examine({ env: { MONITORS_FILE: path } })
    expect(said.code).toBe(1)
    expect(said.found('settings')).toMatchObject({
      standing: 'broken',
      fix: expect.stringContaining(`vedette validate ${path}`) as string,
    })
  })
})

describe('the health port', () => {
  test('is in use by a running agent, which is not disturbed in its DATA_DIR', async () => {
    await using platform = await startFakePlatform()
    const env = { ...agentOf(platform.url), DATA_DIR: temporaryFolder() }
    const agent = await startAgentProcess(env)
    try {
      const lock = join(env.DATA_DIR, 'agents', '1', 'lock')
      const before = readFileSync(lock, 'utf8')
      const folders = readdirSync(env.DATA_DIR)
      const { port } = new URL(agent.url)
      const said = await examine({ env: { ...env, AGENT_HEALTH_PORT: port } })
      expect(said.broken).toEqual(BROKEN_HERE)
      expect(said.found('health-port')).toMatchObject({ facts: { port: Number(port) } })
      expect(said.found('health-port')?.says).toContain('an agent runs')
      expect(readFileSync(lock, 'utf8')).toBe(before)
      expect(readdirSync(env.DATA_DIR)).toEqual(folders)
      expect(readdirSync(join(env.DATA_DIR, 'agents'))).toEqual(['1'])
      expect((await fetch(`${agent.url}/-/liveness`)).status).toBe(200)
      expect(new Set(platform.syncs.map((one) => one.agent.instance)).size).toBe(1)
    } finally {
      agent.child.kill('SIGTERM')
    }
    expect((await agent.ended).code).toBe(0)
  })

  test('is in use by another program', async () => {
    await using platform = await startFakePlatform()
    await using other = await startHttpServer((_, response) =>
      json(response, { status: 'fine', reasons: [] }),
    )
    const env = { ...agentOf(platform.url), AGENT_HEALTH_PORT: String(other.port) }
    const said = await examine({ env })
    expect(said.code).toBe(1)
    expect(said.found('health-port')).toMatchObject({
      standing: 'broken',
      fix: expect.stringContaining(`AGENT_HEALTH_PORT=${other.port + 1}`) as string,
    })
  })
})

test('the help names the exit codes', async () => {
  const { stdout } = await startVedette(['doctor', '--help'], {}).ended
  expect(stdout).toMatch(/Exit code 0: all that is needed works; 1: .*; 2: /)
})

test('a finding has its earlier names in addition to the new ones', () => {
  const head = { version: '8.4.0', image: 'agent', userId: 0, place: 'machine' } as const
  const said = doctorJson(head, [
    { id: 'sandbox', standing: 'broken', says: 'no', fix: 'a line' },
    { id: 'disk', standing: 'works', says: 'all' },
  ])
  const { findings } = JSON.parse(said) as {
    findings: { id: string; formerId?: string; mend?: string }[]
  }
  expect(findings.map(({ id, formerId, mend }) => [id, formerId, mend])).toEqual([
    ['sandbox', 'cage', 'a line'],
    ['disk', undefined, undefined],
  ])
})
