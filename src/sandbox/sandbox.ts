// Sandbox: the only way to run user code. Each run has its own process group, user, environment and folder, with
// limits and the network policy enforced. It is asked to end, then killed, and leaves nothing behind.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { LIMITS } from '../contract/versions.ts'
import type {
  StopRequest,
  SandboxLimits,
  SandboxNetwork,
  ScriptIsolation,
  SupervisorRequest,
} from './request.ts'
import type { Sandbox, SandboxEnd, SandboxRequest } from './run.ts'
import { SandboxUsers } from './users.ts'
import { SandboxWatch } from './watch.ts'
import { memoryOfRuns } from './container-memory.ts'
import { prctl, PR_SET_DUMPABLE } from '../network/native/syscalls.ts'
import { giveTree } from './own-tree.ts'
import { DeadlineReached, isDeadline } from '../network/deadline.ts'
import { SpareSupervisor } from './supervisor/spare.ts'

export type { Sandbox, SandboxEnd, SandboxRun, SandboxRequest, OutputStream } from './run.ts'

/** What all runs of an agent share. */
export interface SandboxSettings {
  network: SandboxNetwork
  isolation: ScriptIsolation
  /** The first of the users that runs get, where the agent may change to others. */
  firstUserId: number
}

const ASK: StopRequest = { signal: 'SIGTERM', to: 'leader', graceMs: 3_000 }

/** Makes the sandbox of an agent. From now on other processes of its user may not look into this one. */
export function createSandbox(settings: SandboxSettings): Sandbox {
  // Processes of the same user could otherwise read its environment, its memory and its open files in /proc.
  prctl(PR_SET_DUMPABLE, 0)
  const users = new SandboxUsers(settings.firstUserId)
  const supervisors = new SpareSupervisor()
  const begin = async (order: SandboxRequest, signal: AbortSignal): Promise<SandboxEnd> => {
    const userId = users.acquire()
    try {
      return await runOne({ ...settings, supervisors }, order, userId, signal)
    } finally {
      users.giveBack(userId)
      supervisors.prepare()
    }
  }
  return {
    alwaysEnforcesNetwork: settings.isolation === 'require',
    userIds: users.all(),
    run: (order, signal) => ({
      ended: begin(order, signal).catch((error: unknown) =>
        neverBegan(order, (error as Error).message),
      ),
    }),
    close: () => supervisors.close(),
  }
}

async function runOne(
  settings: SandboxSettings & { supervisors: SpareSupervisor },
  order: SandboxRequest,
  userId: number | undefined,
  signal: AbortSignal,
): Promise<SandboxEnd> {
  for (const name of RUN_FOLDERS) await mkdir(join(order.folder, name), { recursive: true })
  if (userId !== undefined) await giveTree(order.folder, userId)
  const limits = { ...order.limits, memoryBytes: memoryFor(order) }
  const watch = new SandboxWatch(order, userId, settings.supervisors.acquire())
  const stop = () =>
    watch.send({ do: 'ask', outcome: isDeadline(signal) ? 'out-of-time' : 'cancelled' })
  watch.begin(supervisorRequest(settings, { ...order, limits }, userId))
  signal.addEventListener('abort', stop, { once: true })
  if (signal.aborted) stop()
  try {
    return { ...(await watch.ended()), ...appliedLimits(order, limits, signal) }
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

function supervisorRequest(
  { network, isolation }: SandboxSettings,
  order: SandboxRequest,
  userId: number | undefined,
): SupervisorRequest {
  const { command, args, folder, limits, proxy } = order
  const isProxied = proxy?.when === 'always'
  const environment = { ...(isProxied ? proxy.environment : {}), ...order.environment }
  return {
    command,
    args,
    folder,
    cwd: order.cwd ?? folder,
    environment: sandboxEnvironment(folder, environment, order.programs),
    ...(proxy?.when === 'unenforced' && { environmentUnenforced: proxy.environment }),
    ...(userId === undefined ? {} : { userId }),
    readable: [command, ...(order.programs ?? []), ...(order.readable ?? [])],
    limits,
    startMs: LIMITS.sandboxStartMsMax,
    ask: order.ask ?? ASK,
    network: isProxied ? { ...network, proxyPort: proxy.port } : network,
    isolation,
  }
}

/** Folders with programs of the system; the agent's own PATH is not passed on. */
const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** Folders that every run has below its own; they are made before it starts. */
const RUN_FOLDERS: readonly string[] = ['home', 'tmp']

/**
 * The variables of a run in `folder`: a home and a temporary folder of its own, and what the order names,
 * which wins. `programs` are folders to look for programs in, before those of the system.
 */
function sandboxEnvironment(
  folder: string,
  wanted: Readonly<Record<string, string>>,
  programs: readonly string[] = [],
): Record<string, string> {
  const home = join(folder, 'home')
  const temporary = join(folder, 'tmp')
  return {
    PATH: [...programs, SYSTEM_PATH].join(':'),
    HOME: home,
    TMPDIR: temporary,
    XDG_CONFIG_HOME: join(home, '.config'),
    XDG_CACHE_HOME: join(home, '.cache'),
    XDG_RUNTIME_DIR: temporary,
    LANG: 'C.UTF-8',
    TZ: 'UTC',
    // Datagram sockets are not given, so names are asked for over TCP: resolv.conf(5), and c-ares.
    RES_OPTIONS: 'use-vc',
    ...wanted,
  }
}

function memoryFor({ limits }: SandboxRequest): number {
  return Math.min(limits.memoryBytes, memoryOfRuns())
}

/** The limits that applied in the end. */
function appliedLimits(
  { limits: wanted }: SandboxRequest,
  limits: SandboxLimits,
  { reason }: AbortSignal,
): Pick<SandboxEnd, 'limits' | 'memoryBytesWanted'> {
  const wallMs = reason instanceof DeadlineReached ? reason.deadlineMs : limits.wallMs
  const isLess = limits.memoryBytes < wanted.memoryBytes
  return {
    limits: { ...limits, wallMs },
    ...(isLess ? { memoryBytesWanted: wanted.memoryBytes } : {}),
  }
}

function neverBegan({ limits }: SandboxRequest, problem: string): SandboxEnd {
  return {
    limits,
    outcome: 'sandbox-failed',
    exitCode: null,
    signal: null,
    problem,
    usage: { wallMs: 0, cpuMs: 0, peakMemoryBytes: 0, processesMax: 0, diskBytes: 0 },
    leftovers: 0,
    leftBehind: 0,
    tail: { stdout: '', stderr: '' },
    outputBytes: 0,
    blocked: [],
  }
}
