// Probes the sandbox of user code, and whether the browser starts in it as it does for a run.
import { stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import type { AgentConfig } from '../../agent/config.ts'
import { LIMITS } from '../../contract/versions.ts'
import { createSandbox } from '../../sandbox/sandbox.ts'
import { trySandbox } from '../../sandbox/trial.ts'
import { CHROMIUM_ADVICE, findChromium, readableFor } from '../../scripts/chromium.ts'
import { makeLockedFolder } from '../../sandbox/locked-folder.ts'
import { removeTree } from '../../sandbox/remove-tree.ts'
import { absent, type Finding, USER_FIX } from './finding.ts'
import type { Sandbox } from '../../sandbox/request.ts'

type SandboxConfig = Pick<
  AgentConfig,
  'chromiumPath' | 'dataDir' | 'image' | 'scriptIsolation' | 'scriptUserId' | 'workRoot'
>

export interface SandboxContext {
  config: SandboxConfig
  /** An engine or a runtime is installed. */
  runsCode: boolean
  signal: AbortSignal
}

/** Distance from the first user id of an agent, beyond the ids that its runs may use at a time. */
const USERS_APART = 128
/** Blocked networks: the probes send nothing beyond this machine. */
const EVERYWHERE = ['0.0.0.0/0', '::/0']

/** A sandbox that reports missing requirements regardless of SCRIPT_ISOLATION. */
function ownSandbox({ scriptUserId }: SandboxConfig): Sandbox {
  return createSandbox({
    network: { blocked: EVERYWHERE, allowed: [] },
    isolation: 'best',
    firstUserId: scriptUserId + USERS_APART,
  })
}

/** The folder for runs. Creates none: an agent would create it with other permissions. */
async function rootOf({ workRoot, dataDir }: SandboxConfig): Promise<string> {
  for (const path of [workRoot, dataDir ?? tmpdir()]) {
    const found = await stat(path).catch(() => undefined)
    if (found?.isDirectory() === true) return path
  }
  return tmpdir()
}

/** Probes the layers of the sandbox. */
export async function probeSandbox({
  config,
  runsCode,
  signal,
}: SandboxContext): Promise<Finding[]> {
  if (!runsCode) return [absent('sandbox', 'not needed: no engine or runtime is installed')]
  const sandbox = ownSandbox(config)
  try {
    const hasChromium = (await findChromium(config.chromiumPath)) !== undefined
    const trial = await trySandbox(sandbox, { root: await rootOf(config), hasChromium }, signal)
    const { layers, namespaces, needs, recommendations } = trial
    const facts = { ...layers, userNamespaces: namespaces }
    const [missing] = [...needs, ...recommendations]
    if (missing !== undefined) {
      const isRefused = config.scriptIsolation === 'require' || layers === undefined
      const standing = needs.length > 0 && isRefused ? 'broken' : 'warning'
      const says = layers === undefined ? `could not be tried: ${missing.what}` : missing.what
      const fix = missing.fix ?? rootFix(missing.what)
      return [{ id: 'sandbox', standing, says, fix, facts }]
    }
    return [{ id: 'sandbox', standing: 'works', says: layerText(facts), facts }]
  } finally {
    sandbox.close()
  }
}

/** Root without its capabilities may not switch to the users that code runs as. */
function rootFix(problem: string): string | undefined {
  return problem.includes('as root without') ? USER_FIX : undefined
}

function layerText(facts: { ownUser?: boolean; landlock?: number; network?: boolean }): string {
  const { ownUser, landlock = 0, network } = facts
  const layers = [
    ...(ownUser === true ? ['a separate user'] : []),
    ...(landlock > 0 ? ['Landlock'] : []),
    ...(network === true ? ['seccomp'] : []),
  ]
  return `sandboxed by ${layers.join(', ')}`
}

const MEBIBYTE = 1_048_576
const BROWSER_LIMITS = {
  wallMs: 25_000,
  cpuMs: 20_000,
  memoryBytes: LIMITS.scriptMemoryBytesMax,
  processes: LIMITS.scriptProcessesMax,
  outputBytes: MEBIBYTE,
  diskBytes: 256 * MEBIBYTE,
  fileBytes: 256 * MEBIBYTE,
  openFiles: 8192,
}

const PAGE_TEXT = 'a-page-of-the-doctor'
/** Prints the version, then the page of `data:`. */
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
  `data:text/html,<p>${PAGE_TEXT}`,
]

/** Probes the browser: found, starts, shows a page. */
export async function probeBrowser(context: SandboxContext): Promise<Finding[]> {
  const { config, runsCode } = context
  const { chromiumPath, image } = config
  const found = await findChromium(chromiumPath)
  if (found !== undefined && (runsCode || chromiumPath !== undefined))
    return [await started(found, context)]
  if (chromiumPath !== undefined) {
    const says = `no program at ${chromiumPath} (CHROMIUM_PATH)`
    return [{ id: 'browser', standing: 'broken', says, fix: 'set CHROMIUM_PATH=/usr/bin/chromium' }]
  }
  if (found !== undefined)
    return [absent('browser', `${found}, not used: no engine or runtime is installed`)]
  if (!runsCode) {
    return [absent('browser', image === 'agent' ? 'none is installed' : 'not in this image')]
  }
  const says = 'not found: browser checks and most suites cannot run'
  return [{ id: 'browser', standing: 'warning', says, fix: CHROMIUM_ADVICE }]
}

async function started(chromium: string, { config, signal }: SandboxContext): Promise<Finding> {
  const sandbox = ownSandbox(config)
  const { path: folder, release } = await makeLockedFolder(await rootOf(config), 'doctor-')
  try {
    const { outcome, exitCode, tail, problem } = await sandbox.run(
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
    const version = /^.*\d+\.\d+\.\d+.*$/m.exec(tail.stdout)?.[0].trim().slice(0, 100)
    const facts = { path: chromium, version, outcome, exitCode }
    if (tail.stdout.includes(PAGE_TEXT)) {
      const says = `${chromium}: ${version ?? 'of no version'}`
      return { id: 'browser', standing: 'works', says, facts }
    }
    if (outcome === 'sandbox-failed') {
      const why = problem ?? 'it could not be started'
      const says = `${chromium} could not be tried: ${why}`
      return { id: 'browser', standing: 'broken', says, fix: rootFix(why), facts }
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
