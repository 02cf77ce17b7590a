// The next start removes what a killed agent left, and nothing of live agents of the same DATA_DIR.
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  type StartedAgent,
  startAgentProcess,
  monitorsFile,
} from '../support/agent/agent-process.ts'
import { eventually } from '../support/eventually.ts'
import { scriptTools } from '../support/scripts/script-fleet.ts'
import { projectFolder } from '../support/scripts/script-host.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { startHttpServer, type TestServer } from '../support/test-server.ts'

/** Users of this test alone. */
const USER_ID = 100_000 + (process.pid % 10_000) * 256

let site: TestServer
const tools = scriptTools()
const visits = new Set<string>()
beforeAll(async () => {
  // Nobody is ever answered.
  site = await startHttpServer((request) => void visits.add(request.url ?? ''))
})
afterAll(() => site.close())

const urlOf = (path: string) => `http://${site.authority}${path}`

/** Monitors that visit the site and wait for it: in a browser, in an installation, in a test of a suite. */
function monitorsFor(name: string): string {
  const script = `const { test } = require('@playwright/test')
    test.setTimeout(0)
    test('waits', async ({ page }) => { await page.goto('${urlOf(`/${name}/browser`)}') })`
  const waits = (what: string) =>
    `require("http").get("${urlOf(`/${name}/${what}`)}");setInterval(() => {}, 1e9)`
  const projectThatWaits = (what: string) =>
    projectFolder({ 'package.json': '{"private":true}', 'wait.cjs': waits(what) })
  const suite = { type: 'PLAYWRIGHT', every: '1h', engine: 'node', engineVersion: '24' }
  const [installing, testing] = ['install', 'suite'].map((what) => ({
    ...suite,
    id: what,
    name: what,
    codeBundlePath: projectThatWaits(what),
  }))
  return monitorsFile([
    { id: 'b', name: 'browser', type: 'BROWSER', every: '1h', script },
    { ...installing, installCommand: 'node wait.cjs' },
    { ...testing, installCommand: '', testCommand: 'node wait.cjs' },
  ])
}

function startAgent(dataDir: string, file: string): Promise<StartedAgent> {
  return startAgentProcess({
    DATA_DIR: dataDir,
    TOOLS_DIR: tools,
    MONITORS_FILE: file,
    SCRIPT_USER_ID: String(USER_ID),
    SCRIPT_ISOLATION: 'best',
    JOB_CONCURRENCY: '3',
  })
}

const inAllRuns = (name: string) =>
  eventually(() => ['browser', 'install', 'suite'].every((one) => visits.has(`/${name}/${one}`)), {
    what: `the runs of ${name}`,
  })

/** The process and all below it, as the end of a container has it. */
function killAll(pid: number): void {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc').filter((one) => /^\d+$/.test(one))) {
    try {
      const fields = readFileSync(`/proc/${name}/stat`, 'latin1').split(') ').at(-1)?.split(' ')
      parents.set(Number(name), Number(fields?.[1]))
    } catch {
      continue
    }
  }
  const below = (one: number): number[] => [
    one,
    ...[...parents].filter(([, parent]) => parent === one).flatMap(([child]) => below(child)),
  ]
  // Who is not killed yet must not clear up meanwhile.
  for (const one of below(pid)) {
    try {
      process.kill(one, 'SIGKILL')
    } catch (error) {
      // It has ended by itself since.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
}

const workOf = (dataDir: string) =>
  readdirSync(join(dataDir, 'work')).filter((name) => name.startsWith('vedette-run-'))

test('killed in a browser run, a suite and an installation; the others of its DATA_DIR keep theirs', async () => {
  const dataDir = join(temporaryFolder(), 'data')
  const first = await startAgent(dataDir, monitorsFor('first'))
  await inAllRuns('first')
  const ofFirst = workOf(dataDir)
  expect(ofFirst).toHaveLength(3)
  const second = await startAgent(dataDir, monitorsFor('second'))
  await inAllRuns('second')
  const ofSecond = workOf(dataDir).filter((name) => !ofFirst.includes(name))
  // The state after an agent was killed while it filled the cache.
  const draft = join(dataDir, 'cache', 'packages', '.draft-+Ab12Cd')
  mkdirSync(draft, { recursive: true })

  killAll(first.child.pid ?? 0)
  await first.ended
  expect(workOf(dataDir).filter((name) => ofFirst.includes(name))).toEqual(ofFirst)

  const third = await startAgent(dataDir, monitorsFile([]))
  await third.line(({ msg }) => msg === 'leftover files and processes of killed agents are removed')
  expect(workOf(dataDir).toSorted()).toEqual(ofSecond.toSorted())
  expect(readdirSync(join(dataDir, 'cache', 'packages'))).toEqual([])

  killAll(second.child.pid ?? 0)
  killAll(third.child.pid ?? 0)
  await Promise.all([second.ended, third.ended])
  const last = await startAgent(dataDir, monitorsFile([]))
  await last.line(({ msg }) => msg === 'leftover files and processes of killed agents are removed')
  // The folder of its own sandbox trial is short-lived.
  await eventually(() => readdirSync(join(dataDir, 'work')).length === 0)
})
