// Aim: an agent whose DATA_DIR is not writable logs the code once and continues with uptime checks. Runs that need
// a folder are errored with that code, and no program fault is reported.
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Result } from '../../src/contract/result.ts'
import { launchAgentProcess, type StartedAgent } from '../support/agent/agent-process.ts'
import { AS_NOBODY } from '../support/as-nobody.ts'
import { eventually } from '../support/eventually.ts'
import { runtimeFolder } from '../support/scripts/script-host.ts'
import { mountSmallDisk, type SmallDisk } from '../support/small-disk.ts'
import { temporaryFile, temporaryFolder } from '../support/temporary-folder.ts'
import { startHttpServer, type TestServer } from '../support/test-server.ts'

const isRoot = process.getuid?.() === 0
const CODE = 'DATA_DIR_UNWRITABLE'

let site: TestServer
let tools: string
const disks: SmallDisk[] = []
const agents: StartedAgent[] = []
beforeAll(async () => {
  tools = runtimeFolder()
  site = await startHttpServer((_, response) => void response.end('ok'))
})
afterAll(async () => {
  for (const { child } of agents) child.kill('SIGKILL')
  await Promise.all(agents.map(({ ended }) => ended))
  for (const disk of disks) disk.remove()
  await site.close()
})

function diskOf(options: string): string {
  const disk = mountSmallDisk(options)
  disks.push(disk)
  return disk.folder
}

function monitorsFile(): string {
  const request = { url: `http://${site.authority}/` }
  const urls = ['u', 'v', 'w', 'x', 'y', 'z'].map((id) => ({
    id,
    name: id,
    type: 'URL',
    every: '1s',
    request,
  }))
  const script = { id: 's', name: 's', type: 'MULTI_STEP', every: '1h', script: 'console.log(1)' }
  const monitors = [...urls, script]
  const path = join(temporaryFolder(), 'monitors.yaml')
  writeFileSync(path, JSON.stringify({ monitors }))
  return path
}

async function start(dataDir: string, prefix: readonly string[] = []): Promise<StartedAgent> {
  const env = { DATA_DIR: dataDir, TOOLS_DIR: tools, MONITORS_FILE: monitorsFile() }
  const agent = launchAgentProcess({ ...env, SCRIPT_ISOLATION: 'best' }, prefix)
  const started = await agent.line(({ msg }) => msg === 'agent started')
  agents.push({ ...agent, url: String(started['url']) })
  return agents.at(-1) as StartedAgent
}

const resultsOf = ({ lines }: StartedAgent, id: string) =>
  lines
    .map((line) => line['result'] as Result | undefined)
    .filter((result) => result?.monitorId === id)
const codesOf = (agent: StartedAgent) =>
  resultsOf(agent, 's').flatMap((one) => one?.failures.map(({ code }) => code) ?? [])
const reportsOf = ({ lines }: StartedAgent) => lines.filter((line) => line['code'] === CODE)

async function warnings({ url }: StartedAgent): Promise<string[]> {
  const answer = await fetch(`${url}/-/readiness`)
  expect(answer.status).toBe(200)
  return ((await answer.json()) as { warnings: string[] }).warnings
}

async function expectReported(agent: StartedAgent, why: string): Promise<void> {
  await eventually(() => codesOf(agent).length > 0 && resultsOf(agent, 'u').length > 1)
  expect(new Set(codesOf(agent))).toEqual(new Set([CODE]))
  expect(new Set(resultsOf(agent, 'u').map((one) => one?.verdict))).toEqual(new Set(['passed']))
  expect(reportsOf(agent)[0]?.msg).toContain(why)
  const found = (await warnings(agent)).filter((one) => one.includes(CODE))
  expect(found).toHaveLength(1)
  // The trial of the sandbox does not repeat it with the system's message.
  const said = agent.lines.map(({ msg }) => String(msg))
  expect([...said, ...(await warnings(agent))].filter((one) => /^E[A-Z]+: /.test(one))).toEqual([])
  const all = JSON.stringify(agent.lines)
  expect(all).not.toContain('INTERNAL')
  expect(all).not.toContain('"stack"')
}

async function stopped(agent: StartedAgent): Promise<void> {
  agent.child.kill('SIGTERM')
  expect((await agent.ended).code).toBe(0)
}

test.for<[string, string, () => string, (readonly string[])?]>([
  ['another user’s folder', 'EACCES', temporaryFolder, AS_NOBODY],
  ['a read-only file system', 'EROFS', () => diskOf('size=8m,ro')],
  [
    'a folder below another user’s',
    'EACCES',
    () => join(temporaryFolder(), 'data', 'vedette'),
    AS_NOBODY,
  ],
  ['a file', 'it is not a folder', () => temporaryFile('data', '')],
  ['a folder that nobody can create', 'a folder cannot be created there', () => '/proc/vedette'],
])('%s', async ([, why, makeDataDir, prefix], { skip }) => {
  skip(!isRoot, 'needs root')
  const agent = await start(makeDataDir(), prefix)
  await expectReported(agent, why)
  expect(reportsOf(agent)).toHaveLength(1)
  await stopped(agent)
})

test('one that becomes full, and has room again', async ({ skip }) => {
  skip(!isRoot, 'needs root')
  const dataDir = diskOf('size=64m')
  mkdirSync(join(dataDir, 'work'))
  chmodSync(join(dataDir, 'work'), 0o777)
  const agent = await start(dataDir)
  await eventually(() => resultsOf(agent, 'u').length > 0)
  expect(reportsOf(agent)).toEqual([])
  expect((await warnings(agent)).filter((one) => one.includes(CODE))).toEqual([])
  await eventually(() => {
    // A run that ends gives room back.
    execFileSync('sh', ['-c', 'cat /dev/zero >> "$0"/full 2>/dev/null || true', dataDir])
    return reportsOf(agent).length > 0
  })
  execFileSync('rm', [join(dataDir, 'full')])
  await agent.line(({ msg }) => msg === 'DATA_DIR can be written to again')
  expect((await warnings(agent)).filter((one) => one.includes(CODE))).toEqual([])
  await stopped(agent)
})
