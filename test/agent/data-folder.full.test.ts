// An agent whose DATA_DIR is not writable logs the code once and goes on; runs that need a folder are errored with it.
import { chmodSync, mkdirSync } from 'node:fs'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  monitorsFile,
  startAgentProcess,
  type StartedAgent,
} from '../support/agent/agent-process.ts'
import { AS_NOBODY } from '../support/as-nobody.ts'
import { eventually } from '../support/eventually.ts'
import { runtimeFolder } from '../support/scripts/script-host.ts'
import { mountSmallDisk, type SmallDisk } from '../support/small-disk.ts'
import { temporaryFile, temporaryFolder } from '../support/temporary-folder.ts'
import { startHttpServer, type TestServer } from '../support/test-server.ts'

const isRoot = process.getuid?.() === 0
const CODE = 'DATA_DIR_UNWRITABLE'

let site: TestServer
const tools = runtimeFolder()
const disks: SmallDisk[] = []
beforeAll(async () => {
  site = await startHttpServer((_, response) => void response.end('ok'))
})
afterAll(async () => {
  for (const disk of disks) disk.remove()
  await site.close()
})

function diskOf(options: string): string {
  const disk = mountSmallDisk(options)
  disks.push(disk)
  return disk.folder
}

async function start(dataDir: string, prefix: readonly string[] = []): Promise<StartedAgent> {
  const url = { type: 'URL', every: '1s', request: { url: `http://${site.authority}/` } }
  const urls = ['u', 'v', 'w', 'x', 'y', 'z'].map((id) => ({ ...url, id, name: id }))
  const script = { id: 's', name: 's', type: 'MULTI_STEP', every: '1h', script: 'console.log(1)' }
  const env = {
    DATA_DIR: dataDir,
    TOOLS_DIR: tools,
    MONITORS_FILE: monitorsFile([...urls, script]),
  }
  return startAgentProcess({ ...env, SCRIPT_ISOLATION: 'best' }, prefix)
}

const codesOf = (agent: StartedAgent) =>
  agent.results('s').flatMap(({ failures }) => failures.map(({ code }) => code))
const reportsOf = ({ lines }: StartedAgent) => lines.filter((line) => line['code'] === CODE)

/** What readiness warns of; all of it, or about this folder alone. */
async function warnings({ url }: StartedAgent, about = ''): Promise<string[]> {
  const answer = await fetch(`${url}/-/readiness`)
  expect(answer.status).toBe(200)
  const body = (await answer.json()) as { warnings: string[] }
  return body.warnings.filter((one) => one.includes(about))
}

async function expectReported(agent: StartedAgent, why: string): Promise<void> {
  await eventually(() => codesOf(agent).length > 0 && agent.results('u').length > 1)
  expect(new Set(codesOf(agent))).toEqual(new Set([CODE]))
  expect(new Set(agent.results('u').map((one) => one.verdict))).toEqual(new Set(['passed']))
  expect(reportsOf(agent)[0]?.msg).toContain(why)
  expect(await warnings(agent, CODE)).toHaveLength(1)
  // The trial of the sandbox does not repeat it with the system's message.
  const said = agent.lines.map(({ msg }) => String(msg))
  expect([...said, ...(await warnings(agent))].filter((one) => /^E[A-Z]+: /.test(one))).toEqual([])
  const all = JSON.stringify(agent.lines)
  expect(all).not.toContain('INTERNAL')
  expect(all).not.toContain('"stack"')
}

test.for<[string, string, () => string, (readonly string[])?]>([
  ['another user’s folder', 'EACCES', temporaryFolder, AS_NOBODY],
  ['a folder below that', 'EACCES', () => join(temporaryFolder(), 'data', 'vedette'), AS_NOBODY],
  ['a read-only file system', 'EROFS', () => diskOf('size=8m,ro')],
  ['a file', 'it is not a folder', () => temporaryFile('data', '')],
  ['a folder that nobody can create', 'a folder cannot be created there', () => '/proc/vedette'],
])('%s', async ([, why, makeDataDir, prefix], { skip }) => {
  skip(!isRoot, 'needs root')
  const agent = await start(makeDataDir(), prefix)
  await expectReported(agent, why)
  expect(reportsOf(agent)).toHaveLength(1)
  expect((await agent.stop()).code).toBe(0)
})

test('one that becomes full, and has room again', async ({ skip }) => {
  skip(!isRoot, 'needs root')
  const dataDir = diskOf('size=64m')
  mkdirSync(join(dataDir, 'work'))
  chmodSync(join(dataDir, 'work'), 0o777)
  const agent = await start(dataDir)
  await eventually(() => agent.results('u').length > 0)
  expect(reportsOf(agent)).toEqual([])
  expect(await warnings(agent, CODE)).toEqual([])
  await eventually(() => {
    // A run that ends gives room back.
    execFileSync('sh', ['-c', 'cat /dev/zero >> "$0"/full 2>/dev/null || true', dataDir])
    return reportsOf(agent).length > 0
  })
  execFileSync('rm', [join(dataDir, 'full')])
  await agent.line(({ msg }) => msg === 'DATA_DIR can be written to again')
  expect(await warnings(agent, CODE)).toEqual([])
  expect((await agent.stop()).code).toBe(0)
})
