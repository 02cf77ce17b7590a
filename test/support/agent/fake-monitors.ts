// A type of monitor whose runs end when the test says so, and definitions of it.
import * as z from 'zod'
import { Monitor } from '../../../src/contract/monitor.ts'
import type { AnyMonitorType } from '../../../src/monitors/monitor.ts'
import type { ScriptContext } from '../../../src/scripts/context.ts'
import type { Observation } from '../../../src/contract/observation.ts'

/** A started run. */
export interface FakeRun {
  monitor: { id: string; request: unknown }
  context: ScriptContext
  end(observation?: Partial<Observation>): void
  fail(error: unknown): void
}

export interface FakeType {
  types: ReadonlyMap<string, AnyMonitorType>
  /** Runs in progress. */
  runs: FakeRun[]
  /** The next run that starts. */
  next(): Promise<FakeRun>
  /** Ends the next run that starts. */
  endNext(observation?: Partial<Observation>): Promise<void>
  begun(): number
}

/** The default observation of a run. */
const OBSERVATION: Observation = { observed: { statusCode: 200 }, failures: [], responseTimeMs: 5 }

/**
 * A type `URL`. `run` decides at once; without it each run waits for the test. Aborted runs end by
 * themselves, unless `stubborn`.
 */
export function fakeType(
  options: { run?: () => Observation; deadlineMs?: number; stubborn?: boolean } = {},
): FakeType {
  const runs: FakeRun[] = []
  const waiters: ((run: FakeRun) => void)[] = []
  let begun = 0
  const type: AnyMonitorType = {
    checkType: 'URL',
    schema: z.looseObject({ id: z.string(), request: z.looseObject({ url: z.string() }) }),
    deadlineMs: () => options.deadlineMs ?? 60_000,
    samples: (observed) => [
      { name: 'probe_http_status_code', value: Number(observed['statusCode']) },
    ],
    prepare: (monitor) => (context) => {
      begun++
      if (options.run !== undefined) return Promise.resolve(options.run())
      const { promise, resolve, reject } = Promise.withResolvers<Observation>()
      const run: FakeRun = {
        monitor: monitor as FakeRun['monitor'],
        context: context as ScriptContext,
        end: (observation = {}) => resolve({ ...OBSERVATION, ...observation }),
        fail: reject,
      }
      if (options.stubborn !== true) {
        context.signal.addEventListener('abort', () => reject(context.signal.reason as Error))
      }
      const waiter = waiters.shift()
      if (waiter === undefined) runs.push(run)
      else waiter(run)
      return promise
    },
  }
  const next = (): Promise<FakeRun> => {
    const run = runs.shift()
    if (run !== undefined) return Promise.resolve(run)
    return new Promise((resolve) => waiters.push(resolve))
  }
  return {
    types: new Map([['URL', type]]),
    runs,
    begun: () => begun,
    next,
    endNext: async (observation) => (await next()).end(observation),
  }
}

/** A definition; every 10 s by default. */
export function aMonitor(id: string, fields: Record<string, unknown> = {}): Monitor {
  return Monitor.parse({
    id,
    name: `Monitor ${id}`,
    checkType: 'URL',
    frequency: 0,
    frequencyOffset: 10,
    request: { url: 'http://127.0.0.1/' },
    ...fields,
  })
}
