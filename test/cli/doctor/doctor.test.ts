// Aim: `vedette doctor` reports all findings by one call, disturbs no agent, shows no secret, leaves nothing behind.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Probed } from '../../../src/cli/doctor/finding.ts'
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
  const DATA_DIR = temporaryFolder()
  const said = await examine({ env: { ...agentOf(platform.url), DATA_DIR, NODE_EXTRA_CA_CERTS } })
  expect(said).toMatchObject({ code: 0, works: true, stderr: '' })
  const ids = ['platform', 'tls', 'clock', 'disk', 'icmp', 'traceroute'] as const
  expect(ids.filter((id) => said.found(id)?.standing !== 'works')).toEqual([])
  expect([platform.presences.length, platform.syncs.length]).toEqual([1, 0])
  expect(readdirSync(DATA_DIR)).toEqual([])
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
  expect(doctor).toMatchObject({ code: 2, works: false, stderr: agent.stderr })
  const { says = '', fix = '' } = doctor.found('settings') ?? {}
  expect(agent.stderr).toContain(says)
  expect(fix).toContain('API_KEY')
  const ids = ['settings', 'platform', 'disk'] as const
  expect(ids.map((id) => doctor.found(id)?.standing)).toEqual(['broken', 'absent', 'works'])
})

test('an invalid monitors file: the fix is the command that names each problem', async () => {
  const path = temporaryFile('monitors.yaml', 'monitors: [{ name: a }]\n')
  const said = await examine({ env: { MONITORS_FILE: path } })
  expect(said.code).toBe(1)
  expect(said.found('settings')?.fix).toContain(`vedette validate ${path}`)
})

describe('with a monitors file', () => {
  const CODE = ['sandbox', 'browser', 'engines', 'runtimes'] as const

  test('nothing is required that no monitor uses', async () => {
    const env = { ...onFile('URL'), CHROMIUM_PATH: '/nowhere/chromium' }
    const said = await examine({ env })
    expect([said.code, said.broken]).toEqual([0, []])
    const standings = ['icmp', 'traceroute', ...CODE].map(
      (id) => said.found(id as Probed)?.standing,
    )
    expect(new Set(standings)).toEqual(new Set(['absent']))
  })

  test.each([
    ['agent', 'vedette runtime install 2026.04'],
    ['agent-uptime', 'use the image vedette/agent'],
  ])('a runtime that a script needs is required, in the image %s', async (image, fix) => {
    const said = await examine({ env: { ...onFile('URL', 'MULTI_STEP'), VEDETTE_IMAGE: image } })
    expect([said.code, said.broken]).toEqual([1, ['runtimes']])
    expect(said.found('runtimes')?.fix).toBe(fix)
    expect(said.found('engines')?.standing).toBe('absent')
  })
})

test('a running agent is found on its health port, and not disturbed in its DATA_DIR', async () => {
  await using platform = await startFakePlatform()
  const env = { ...agentOf(platform.url), DATA_DIR: temporaryFolder() }
  const agent = await startAgentProcess(env)
  try {
    const lock = join('agents', '1', 'lock')
    const stored = () => [
      readFileSync(join(env.DATA_DIR, lock), 'utf8'),
      ...readdirSync(env.DATA_DIR),
      ...readdirSync(join(env.DATA_DIR, 'agents')),
    ]
    const before = stored()
    const { port } = new URL(agent.url)
    const said = await examine({ env: { ...env, AGENT_HEALTH_PORT: port } })
    expect(said.broken).toEqual(BROKEN_HERE)
    expect(said.found('health-port')?.says).toContain('an agent runs')
    expect(stored()).toEqual(before)
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
  const env = { ...onFile('BROWSER'), DATA_DIR: folder, CHROMIUM_PATH: browser }
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
  const { findings } = JSON.parse(doctorJson(HEAD, FINDINGS)) as { findings: object[] }
  expect(findings[0]).toMatchObject({ id: 'sandbox', formerId: 'cage', mend: 'a line' })
  expect(Object.keys(findings[1] as object)).not.toContain('formerId')
})
