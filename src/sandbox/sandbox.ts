// The one way to run people's code: in a process group, as a user, with an environment and a folder of its
// own, held to limits and to the network policy, asked and then killed, and nothing of it left behind.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { LIMITS } from '../contract/versions.ts'
import { cageEnvironment, RUN_FOLDERS } from './environment.ts'
import type { CageAsk, CageLimits, CageNetwork, ScriptIsolation, WardenOrder } from './request.ts'
import type { Cage, CagedEnd, CageOrder } from './run.ts'
import { CageUsers } from './users.ts'
import { CageWatch } from './watch.ts'
import { memoryOfRuns } from './container-memory.ts'
import { concealProcess } from './supervisor/conceal-process.ts'
import { giveTree } from './give-tree.ts'
import { DeadlineReached, isDeadline } from '../network/deadline.ts'
import { SpareWarden } from './supervisor/spare.ts'

export type { Cage, CagedEnd, CagedRun, CageOrder, OutputStream } from './run.ts'

/** What all runs of an agent share. */
export interface CageSettings {
  network: CageNetwork
  isolation: ScriptIsolation
  /** The first of the users that runs get, where the agent may change to others. */
  firstUserId: number
}

const ASK: CageAsk = { signal: 'SIGTERM', to: 'leader', graceMs: 3_000 }

/** Makes the cage of an agent. From now on other processes of its user may not look into this one. */
export function createCage(settings: CageSettings): Cage {
  concealProcess()
  const users = new CageUsers(settings.firstUserId)
  const wardens = new SpareWarden()
  const begin = async (order: CageOrder, signal: AbortSignal): Promise<CagedEnd> => {
    const userId = users.take()
    try {
      return await runOne({ ...settings, wardens }, order, userId, signal)
    } finally {
      users.giveBack(userId)
      wardens.prepare()
    }
  }
  return {
    alwaysHoldsNetwork: settings.isolation === 'require',
    userIds: users.all(),
    run: (order, signal) => ({
      ended: begin(order, signal).catch((error: unknown) =>
        neverBegan(order, (error as Error).message),
      ),
    }),
    close: () => wardens.close(),
  }
}

async function runOne(
  settings: CageSettings & { wardens: SpareWarden },
  order: CageOrder,
  userId: number | undefined,
  signal: AbortSignal,
): Promise<CagedEnd> {
  for (const name of RUN_FOLDERS) await mkdir(join(order.folder, name), { recursive: true })
  if (userId !== undefined) await giveTree(order.folder, userId)
  const limits = { ...order.limits, memoryBytes: memoryFor(order) }
  const watch = new CageWatch(order, userId, settings.wardens.take())
  const stop = () =>
    watch.tell({ do: 'ask', outcome: isDeadline(signal) ? 'out-of-time' : 'cancelled' })
  watch.begin(wardenOrder(settings, { ...order, limits }, userId))
  signal.addEventListener('abort', stop, { once: true })
  if (signal.aborted) stop()
  try {
    return { ...(await watch.ended()), ...heldTo(order, limits, signal) }
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

function wardenOrder(
  { network, isolation }: CageSettings,
  order: CageOrder,
  userId: number | undefined,
): WardenOrder {
  const { command, args, folder, limits, proxy } = order
  const isProxied = proxy?.when === 'always'
  const environment = { ...(isProxied ? proxy.environment : {}), ...order.environment }
  return {
    command,
    args,
    folder,
    cwd: order.cwd ?? folder,
    environment: cageEnvironment(folder, environment, order.programs),
    ...(proxy?.when === 'unheld' && { environmentUnheld: proxy.environment }),
    ...(userId === undefined ? {} : { userId }),
    readable: [command, ...(order.programs ?? []), ...(order.readable ?? [])],
    limits,
    startMs: LIMITS.cageStartMsMax,
    ask: order.ask ?? ASK,
    network: isProxied ? { ...network, proxyPort: proxy.port } : network,
    isolation,
  }
}

function memoryFor({ limits }: CageOrder): number {
  return Math.min(limits.memoryBytes, memoryOfRuns())
}

/** What the run was held to, in the end. */
function heldTo(
  { limits: wanted }: CageOrder,
  limits: CageLimits,
  { reason }: AbortSignal,
): Pick<CagedEnd, 'limits' | 'memoryBytesWanted'> {
  const wallMs = reason instanceof DeadlineReached ? reason.deadlineMs : limits.wallMs
  const isLess = limits.memoryBytes < wanted.memoryBytes
  return {
    limits: { ...limits, wallMs },
    ...(isLess ? { memoryBytesWanted: wanted.memoryBytes } : {}),
  }
}

function neverBegan({ limits }: CageOrder, problem: string): CagedEnd {
  return {
    limits,
    outcome: 'cage-failed',
    exitCode: null,
    signal: null,
    problem,
    usage: { wallMs: 0, cpuMs: 0, peakMemoryBytes: 0, processesMax: 0, diskBytes: 0 },
    strays: 0,
    leftBehind: 0,
    tail: { stdout: '', stderr: '' },
    outputBytes: 0,
    blocked: [],
  }
}
