// The one way to run people's code: in a process group, as a user, with an environment and a folder of its
// own, held to limits and to the network policy, asked and then killed, and nothing of it left behind.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { cageEnvironment, RUN_FOLDERS } from './cage-environment.ts'
import type {
  BlockedConnection,
  CageAsk,
  CageLayers,
  CageLimits,
  CageNetwork,
  ScriptIsolation,
  WardenEnd,
  WardenOrder,
} from './cage-order.ts'
import { CageUsers } from './cage-users.ts'
import { CageWatch } from './cage-watch.ts'
import { giveTree } from './give-tree.ts'
import { isDeadline } from './monitor.ts'
import { SpareWarden } from './warden-spare.ts'

/** What is to run. */
export interface CageOrder {
  /** Absolute path of the program. */
  command: string
  args: readonly string[]
  /** An existing folder of the run's own; everything in it is handed to the run. */
  folder: string
  /** Where it starts; the folder itself where absent. */
  cwd?: string
  /** Beside what `cageEnvironment` gives; wins over it. */
  environment?: Readonly<Record<string, string>>
  /** Folders with programs, before those of the system. */
  programs?: readonly string[]
  /** Files and folders outside that it may read, or write to. The system's own it may read anyway. */
  readable?: readonly string[]
  writable?: readonly string[]
  limits: CageLimits
  /** Where the proxy of the run listens on 127.0.0.1: reached even where that is in a blocked network. */
  proxyPort?: number
  ask?: CageAsk
  /** Text for its standard input, which is then closed. */
  input?: string
  /** Takes output as it comes; while a promise is pending, no more is read. */
  onOutput?(chunk: Buffer, stream: OutputStream): void | Promise<void>
  /** Takes what it writes to descriptor 3, a line of JSON each; what is no JSON is dropped. */
  onMessage?(message: unknown): void
}

export type OutputStream = 'stdout' | 'stderr'

/** How a run ended. */
export interface CagedEnd extends WardenEnd {
  /** The last bytes of its output, and whether there was more. */
  tail: Record<OutputStream, string>
  outputBytes: number
  /** Connections that the network policy refused; the first ones. */
  blocked: BlockedConnection[]
  /** What held it; absent when it never began. */
  layers?: CageLayers
}

/** A run that has begun. */
export interface CagedRun {
  /** Never rejects; what is wrong with the cage itself is an outcome, too. */
  ended: Promise<CagedEnd>
}

/** Runs people's code. */
export interface Cage {
  /**
   * Starts a run. When the signal is aborted, the command is asked to end, and killed after its grace:
   * the outcome is `out-of-time` where the signal's reason is a deadline, else `cancelled`.
   */
  run(order: CageOrder, signal: AbortSignal): CagedRun
  /** Lets go of what is kept ready for the next run; runs go on. */
  close(): void
}

/** What all runs of an agent share. */
export interface CageSettings {
  network: CageNetwork
  isolation: ScriptIsolation
  /** The first of the users that runs get, where the agent may change to others. */
  firstUserId: number
}

const ASK: CageAsk = { signal: 'SIGTERM', to: 'leader', graceMs: 3_000 }

/** Makes the cage of an agent. */
export function createCage(settings: CageSettings): Cage {
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
    run: (order, signal) => ({
      ended: begin(order, signal).catch((error: unknown) => neverBegan((error as Error).message)),
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
  const watch = new CageWatch(order, userId, settings.wardens.take())
  const stop = () =>
    watch.tell({ do: 'ask', outcome: isDeadline(signal) ? 'out-of-time' : 'cancelled' })
  watch.begin(wardenOrder(settings, order, userId))
  signal.addEventListener('abort', stop, { once: true })
  if (signal.aborted) stop()
  try {
    return await watch.ended()
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

function wardenOrder(
  { network, isolation }: CageSettings,
  order: CageOrder,
  userId: number | undefined,
): WardenOrder {
  const { command, args, folder, limits } = order
  return {
    command,
    args,
    folder,
    cwd: order.cwd ?? folder,
    environment: cageEnvironment(folder, order.environment ?? {}, order.programs),
    ...(userId === undefined ? {} : { userId }),
    readable: [command, ...(order.programs ?? []), ...(order.readable ?? [])],
    writable: order.writable ?? [],
    limits,
    ask: order.ask ?? ASK,
    network: order.proxyPort === undefined ? network : { ...network, proxyPort: order.proxyPort },
    isolation,
  }
}

function neverBegan(problem: string): CagedEnd {
  return {
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
