// What holds user code here, and whether the browser starts in there as it does for a run.
import { stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import type { AgentConfig } from '../../agent/config.ts'
import { LIMITS } from '../../contract/versions.ts'
import { type Sandbox, createSandbox } from '../../sandbox/sandbox.ts'
import type { MissingRequirement } from '../../sandbox/requirements.ts'
import { trySandbox } from '../../sandbox/trial.ts'
import { CHROMIUM_ADVICE, findChromium, readableFor } from '../../scripts/chromium.ts'
import { makeLockedFolder } from '../../sandbox/locked-folder.ts'
import { removeTree } from '../../sandbox/remove-tree.ts'
import type { Finding } from './finding.ts'
import type { Fixes } from './fixes.ts'

type SandboxConfig = Pick<
  AgentConfig,
  'chromiumPath' | 'dataDir' | 'image' | 'scriptIsolation' | 'scriptUserId' | 'workRoot'
>

/** What both looks are at. */
export interface SandboxLook {
  config: SandboxConfig
  fixes: Fixes
  /** An engine or a runtime is installed. */
  runsCode: boolean
  signal: AbortSignal
}

/** Users of an agent's runs begin at the first one: these are beyond those that it may have at a time. */
const USERS_APART = 128
/** Nothing beyond this machine is to hear of it. */
const EVERYWHERE = ['0.0.0.0/0', '::/0']

/** A sandbox that says what it lacks, whatever the settings make of that. */
function ownSandbox({ scriptUserId }: SandboxConfig): Sandbox {
  return createSandbox({
    network: { blocked: EVERYWHERE, allowed: [] },
    isolation: 'best',
    firstUserId: scriptUserId + USERS_APART,
  })
}

/** Where runs have their folders; nothing is made that an agent would make with other rights. */
async function rootOf({ workRoot, dataDir }: SandboxConfig): Promise<string> {
  for (const path of [workRoot, dataDir ?? tmpdir()]) {
    const found = await stat(path).catch(() => undefined)
    if (found?.isDirectory() === true) return path
  }
  return tmpdir()
}

/** Looks at what would hold user code. */
export async function probeSandbox({
  config,
  runsCode,
  fixes,
  signal,
}: SandboxLook): Promise<Finding[]> {
  if (!runsCode)
    return [{ id: 'sandbox', standing: 'absent', says: 'none is run: no engine or runtime' }]
  const sandbox = ownSandbox(config)
  try {
    const hasChromium = (await findChromium(config.chromiumPath)) !== undefined
    const trial = await trySandbox(sandbox, { root: await rootOf(config), hasChromium }, signal)
    const { layers, namespaces, needs, recommendations } = trial
    const facts = { ...layers, userNamespaces: namespaces }
    const [lack] = [...needs, ...recommendations]
    if (lack !== undefined) {
      const isRefused = config.scriptIsolation === 'require' || layers === undefined
      const standing = needs.length > 0 && isRefused ? 'broken' : 'warning'
      const says = layers === undefined ? `could not be tried: ${lack.what}` : lack.what
      const fix = fixOf(lack, fixes)
      return [{ id: 'sandbox', standing, says, ...(fix !== undefined && { fix }), facts }]
    }
    return [{ id: 'sandbox', standing: 'works', says: layerWords(facts), facts }]
  } finally {
    sandbox.close()
  }
}

/** The line for the place that it is to be written in, where there is one. */
function fixOf({ what, fix }: MissingRequirement, fixes: Fixes): string | undefined {
  if (fix === undefined) return rootFix(what, fixes)
  if (fix.includes('ptrace_scope')) return 'sysctl -w kernel.yama.ptrace_scope=1  (on the host)'
  return fix.includes('seccomp=') ? (fixes.seccomp() ?? fix) : fix
}

/** Root without its rights may not become the users that code runs as. */
function rootFix(problem: string, fixes: Fixes): string | undefined {
  return problem.includes('as root without') ? fixes.user() : undefined
}

function layerWords(facts: { ownUser?: boolean; landlock?: number; network?: boolean }): string {
  const { ownUser, landlock = 0, network } = facts
  const held = [
    ...(ownUser === true ? ['a user of its own'] : []),
    ...(landlock > 0 ? ['Landlock'] : []),
    ...(network === true ? ['seccomp'] : []),
  ]
  return `held by ${held.join(', ')}`
}

const MEBIBYTE = 1_048_576
const BROWSER_LIMITS = {
  wallMs: 8000,
  cpuMs: 20_000,
  memoryBytes: LIMITS.scriptMemoryBytesMax,
  processes: LIMITS.scriptProcessesMax,
  outputBytes: MEBIBYTE,
  diskBytes: 256 * MEBIBYTE,
  fileBytes: 256 * MEBIBYTE,
  openFiles: 8192,
}

const WORD = 'a-page-of-the-doctor'
/** Says its version, then shows a page of its own. */
const SCRIPT = '"$0" --version; exec "$0" "$@"'
const BROWSER_ARGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-extensions',
  '--no-first-run',
  '--dump-dom',
  `data:text/html,<p>${WORD}`,
]

/** Looks at the browser: found, starts, shows a page. */
export async function probeBrowser(look: SandboxLook): Promise<Finding[]> {
  const { config, runsCode, fixes } = look
  const { chromiumPath, image } = config
  const found = await findChromium(chromiumPath)
  if (found !== undefined && (runsCode || chromiumPath !== undefined))
    return [await started(found, look)]
  if (chromiumPath !== undefined) {
    const says = `there is no program at ${chromiumPath} (CHROMIUM_PATH)`
    return [
      {
        id: 'browser',
        standing: 'broken',
        says,
        fix: fixes.variable('CHROMIUM_PATH', '/usr/bin/chromium'),
      },
    ]
  }
  if (found !== undefined) {
    return [{ id: 'browser', standing: 'absent', says: `${found}, which nothing here uses` }]
  }
  if (!runsCode) {
    const says = image === 'agent' ? 'none is installed' : 'not in this image'
    return [{ id: 'browser', standing: 'absent', says }]
  }
  const says = 'none is found: browser checks and most suites cannot run'
  return [{ id: 'browser', standing: 'warning', says, fix: CHROMIUM_ADVICE }]
}

async function started(chromium: string, { config, fixes, signal }: SandboxLook): Promise<Finding> {
  const sandbox = ownSandbox(config)
  const { path: folder, release } = await makeLockedFolder(await rootOf(config), 'doctor-')
  try {
    const run = sandbox.run(
      {
        command: '/bin/sh',
        args: ['-c', SCRIPT, chromium, `--user-data-dir=${folder}/home/profile`, ...BROWSER_ARGS],
        folder,
        readable: await readableFor(chromium),
        limits: BROWSER_LIMITS,
        ask: { signal: 'SIGTERM', to: 'group', graceMs: 300 },
      },
      signal,
    )
    const { outcome, exitCode, tail, problem } = await run.ended
    const version = /^.*\d+\.\d+\.\d+.*$/m.exec(tail.stdout)?.[0].trim().slice(0, 100)
    const facts = { path: chromium, version, outcome, exitCode }
    if (tail.stdout.includes(WORD)) {
      return {
        id: 'browser',
        standing: 'works',
        says: `${chromium}: ${version ?? 'of no version'}`,
        facts,
      }
    }
    if (outcome === 'sandbox-failed') {
      const why = problem ?? 'it could not be started'
      const fix = rootFix(why, fixes)
      const says = `${chromium} could not be tried: ${why}`
      return { id: 'browser', standing: 'broken', says, ...(fix !== undefined && { fix }), facts }
    }
    const last = tail.stderr.trim().split('\n').at(-1)?.slice(0, 200)
    const why = outcome === 'exited' ? `exit code ${exitCode}` : outcome
    const said = last === undefined || last === '' ? '' : `: ${last}`
    const says = `${chromium} does not start (${why})${said}`
    return { id: 'browser', standing: 'broken', says, fix: CHROMIUM_ADVICE, facts }
  } finally {
    sandbox.close()
    await removeTree(folder).finally(release)
  }
}
