// Sandbox: the only way to run user code. Each run has its own process group, user, environment and folder, with
// limits and the network policy enforced. It is asked to end, then killed, and leaves nothing behind.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { LIMITS } from '../contract/versions.ts'
import {
  sandboxFailed,
  type Sandbox,
  type SandboxEnd,
  type SandboxRequest,
  type ScriptIsolation,
  type StopRequest,
  type SandboxNetwork,
  type SupervisorRequest,
} from './request.ts'
import { SandboxUsers } from './users.ts'
import { SandboxWatch } from './watch.ts'
import { memoryOfRuns } from './container-memory.ts'
import { prctl, PR_SET_DUMPABLE } from '../network/native/syscalls.ts'
import { giveTree } from './trees.ts'
import { SpareSupervisor } from './supervisor/spare.ts'

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
  const run = async (order: SandboxRequest, signal: AbortSignal): Promise<SandboxEnd> => {
    const userId = users.acquire()
    try {
      const request = supervisorRequest(settings, order, userId)
      for (const name of RUN_FOLDERS) await mkdir(join(order.folder, name), { recursive: true })
      if (userId !== undefined) await giveTree(order.folder, userId)
      return await new SandboxWatch(order, request, supervisors.acquire()).ended(signal)
    } finally {
      users.giveBack(userId)
      supervisors.prepare()
    }
  }
  return {
    alwaysEnforcesNetwork: settings.isolation === 'require',
    userIds: users.all(),
    run: (order, signal) =>
      run(order, signal).catch((error: unknown) => neverBegan(order, (error as Error).message)),
    close: () => supervisors.close(),
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
    limits: { ...limits, memoryBytes: Math.min(limits.memoryBytes, memoryOfRuns()) },
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

/** The variables of a run; `programs` are folders to look for programs in, before those of the system. */
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

function neverBegan({ limits }: SandboxRequest, problem: string): SandboxEnd {
  const tail = { stdout: '', stderr: '' }
  return { ...sandboxFailed(problem), limits, tail, outputBytes: 0, blocked: [] }
}
