// Aim: the command `vedette doctor` reports all findings by one call that does not disturb a running agent, ends with
// the exit code for them, shows no secret, and leaves nothing behind.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { doctorJson, doctorTable } from '../../../src/cli/doctor/report.ts'
import { startAgentProcess } from '../../support/agent/agent-process.ts'
import { FAKE_KEY, json, startFakePlatform } from '../../support/agent/fake-platform.ts'
import { agentOf, examine, onFile } from '../../support/cli/doctor-process.ts'
import { eventually } from '../../support/eventually.ts'
import { withoutEchoes } from '../../support/needs.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { startVedette } from '../../support/platform/platform-process.ts'
import { temporaryFile, temporaryFolder } from '../../support/temporary-folder.ts'

const noEchoes = withoutEchoes()
/** Expected broken findings with valid settings. */
const BROKEN_HERE = noEchoes === undefined ? [] : ['icmp', 'traceroute']

test('all that is needed works: one call that registers no agent, over TLS of an own authority', async ({
  skip,
}) => {
  skip(noEchoes !== undefined, noEchoes)
  const authority = createAuthority()
  await using platform = await startFakePlatform(authority.issue())
  const NODE_EXTRA_CA_CERTS = temporaryFile('ca.pem', authority.ca)
  const folder = temporaryFolder()
  const env = { ...agentOf(platform.url), DATA_DIR: folder, NODE_EXTRA_CA_CERTS }
  const said = await examine({ env })
  expect(said).toMatchObject({ code: 0, works: true, stderr: '' })
  for (const id of ['platform', 'tls', 'clock', 'disk', 'icmp', 'traceroute'] as const) {
    expect([id, said.found(id)?.standing]).toEqual([id, 'works'])
  }
  expect([platform.presences.length, platform.syncs.length]).toEqual([1, 0])
  expect(readdirSync(folder)).toEqual([])
})

test('a platform that repeats the key: it is scrubbed', async () => {
  await using platform = await startFakePlatform()
  platform.misbehave((_, response) => {
    json(response, { message: `not with ${FAKE_KEY}` }, 403)
    return true
  })
  const said = await examine({ env: agentOf(platform.url) })
  expect(said.code).toBe(1)
  expect(said.found('platform')?.says).toContain('not with [scrubbed]')
  expect(said.stdout).not.toContain(FAKE_KEY)
})

test('invalid settings are refused as by the agent, and the other probes run', async () => {
  const env = { PLATFORM_URL: 'http://127.0.0.1:1', API_KEY: 'none' }
  const [doctor, agent] = await Promise.all([examine({ env }), startVedette(['agent'], env).ended])
  expect([doctor.code, doctor.works]).toEqual([2, false])
  expect(doctor.stderr).toBe(agent.stderr)
  const { says = '', fix = '' } = doctor.found('settings') ?? {}
  expect(agent.stderr).toContain(says)
  expect(fix).toContain('API_KEY')
  const standings = (['settings', 'platform', 'disk'] as const).map(
    (id) => doctor.found(id)?.standing,
  )
  expect(standings).toEqual(['broken', 'absent', 'works'])
})

test('an invalid monitors file: the fix is the command that names each problem', async () => {
  const path = temporaryFile('monitors.yaml', 'monitors: [{ name: a }]\n')
  const said = await examine({ env: { MONITORS_FILE: path } })
  expect(said.code).toBe(1)
  expect(said.found('settings')?.fix).toContain(`vedette validate ${path}`)
})

test('a running agent is found on its health port, and not disturbed in its DATA_DIR', async () => {
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

test('interrupted, it ends at once and leaves no process', async () => {
  const folder = temporaryFolder()
  const browser = temporaryFile('program', '#!/bin/sh\nexec sleep 60\n', 0o755)
  const env = { ...onFile(), DATA_DIR: folder, CHROMIUM_PATH: browser }
  const doctor = startVedette(['doctor'], { AGENT_HEALTH_PORT: '0', ...env })
  await eventually(() => readdirSync(folder).length > 0)
  doctor.kill('SIGINT')
  expect(await doctor.ended).toMatchObject({ code: 130, stdout: '' })
  expect(readdirSync(folder)).toEqual([])
})

const HEAD = { version: '8.4.0', image: 'agent', userId: 0, place: 'machine' } as const
const FINDINGS = [
  { id: 'sandbox', standing: 'broken', says: 'no', fix: 'a line' },
  { id: 'disk', standing: 'works', says: 'all' },
] as const

test('the table has a line for each finding and its fix, coloured on request alone', () => {
  const table = doctorTable(HEAD, FINDINGS, false)
  expect(table).toMatch(/^✗ user code +no\n +fix: a line\n✓ disk +all\n/m)
  expect(table).toContain('1 required check failed.')
  expect(table).not.toContain('\u001B')
  expect(doctorTable(HEAD, FINDINGS, true)).toContain('\u001B')
})

test('a finding has its earlier names in addition to the new ones', () => {
  const { findings } = JSON.parse(doctorJson(HEAD, FINDINGS)) as {
    findings: { id: string; formerId?: string; mend?: string }[]
  }
  expect(findings.map(({ id, formerId, mend }) => [id, formerId, mend])).toEqual([
    ['sandbox', 'cage', 'a line'],
    ['disk', undefined, undefined],
  ])
})
