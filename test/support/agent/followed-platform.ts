// The platform as a source of monitors, following a fake platform whose answers a test sets.
import { onTestFinished } from 'vitest'
import { createClock, type MachineClocks } from '../../../src/agent/schedule/clock.ts'
import type { FileStore } from '../../../src/agent/platform/sync/stored-monitors.ts'
import { PlatformSource } from '../../../src/agent/platform/client.ts'
import { createPlatformLink } from '../../../src/agent/platform/link.ts'
import { createProgressBoard } from '../../../src/agent/run/progress-board.ts'
import type { AgentReport, Change, Snapshot } from '../../../src/agent/source.ts'
import type { NetworkProblem } from '../../../src/contract/failure.ts'
import { createLog } from '../../../src/process/log.ts'
import { aMonitor } from './fake-monitors.ts'
import { startFakePlatform, type FakePlatform } from './fake-platform.ts'

export const A = '22222222-2222-4222-8222-222222222222'
export const B = '33333333-3333-4333-8333-333333333333'
export const RUN = '44444444-4444-4444-8444-444444444444'
export const slots = { everyMs: 10_000, offsetMs: 0 }
/** A monitor as the platform sends it. */
export const given = (id: string, fields: Record<string, unknown> = {}) => ({
  monitor: aMonitor(id, fields),
  slots,
  from: 1000,
})
/** The answer that has exactly these monitors. */
export const whole = (...set: unknown[]) => ({ whole: true, set, drop: [], variables: [] }) as never

/** A fake platform and the source that follows it, until the test ends. */
export async function followPlatform(
  options: {
    clocks?: MachineClocks
    prepare?: (at: FakePlatform) => void
    folder?: FileStore
  } = {},
) {
  const at = await startFakePlatform()
  options.prepare?.(at)
  const link = createPlatformLink({ platformUrl: at.url, apiKey: 'pl_0123456789abcdef' })
  const clock = createClock(options.clocks)
  const lines: string[] = []
  let id = A
  const source = new PlatformSource({
    link,
    clock,
    random: () => 0,
    folder: options.folder ?? {
      path: undefined,
      store: () => Promise.resolve(),
      read: () => Promise.resolve(undefined),
    },
    facts: () => ({
      id,
      instance: B,
      version: '8.4.0',
      image: 'agent-uptime',
      checkTypes: ['URL'],
      engines: [],
      runtimes: [],
    }),
    renewId() {
      id = RUN
      return Promise.resolve()
    },
    log: createLog({
      level: 'info',
      pretty: false,
      destination: { write: (line) => void lines.push(line) },
    }),
  })
  const stop = new AbortController()
  const runs: { run: string; state: 'waiting' | 'running' }[] = []
  const network: { problem: NetworkProblem | undefined } = { problem: undefined }
  let runsChanged: () => void = () => undefined
  const progress = createProgressBoard()
  const queue = { waiting: 0, running: 0, free: 1 }
  const report: AgentReport = {
    queues: () => ({ uptime: queue, scripted: queue }),
    runs: () => [...runs],
    network: () => network.problem,
    onRunsChanged: (changed) => (runsChanged = changed),
    progress,
  }
  const changes = source.follow(stop.signal, report)[Symbol.asyncIterator]()
  const next = async (): Promise<Change> => (await changes.next()).value as Change
  const monitors = async (): Promise<Snapshot> => {
    for (;;) {
      const change = await next()
      if (change.kind === 'monitors') return change.snapshot
    }
  }
  onTestFinished(async () => {
    stop.abort()
    await changes.return?.()
    link.close()
    await at.close()
  })
  const signalRuns = () => runsChanged()
  return {
    at,
    changes,
    clock,
    source,
    lines,
    runs,
    network,
    signalRuns,
    next,
    monitors,
    stop,
    progress,
  }
}
