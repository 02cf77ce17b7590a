// Runs one monitor of a type for tests of its observation.
import type { HttpObserved } from '../../../src/monitors/http/observed.ts'
import type { AnyMonitorType } from '../../../src/monitors/monitor.ts'
import { url } from '../../../src/monitors/url/index.ts'
import { startStopwatch } from '../stopwatch.ts'
import { deadlineAfter, testContext, type ContextOptions } from './monitor-context.ts'

/** The codes of a check's failures. */
export const codesOf = async (checking: Promise<{ codes: string[] }>) => (await checking).codes

/** The assertion of a line: source, property (without blanks), comparison and target. */
export function assertion(line: string) {
  const [source, property, comparison, ...target] = line.split(' ')
  return { source, property, comparison, target: target.join(' ') }
}

/** Values of the samples of an observation, by their names with the values of their labels. */
export function sampleValues(type: AnyMonitorType, observed: object): Record<string, number> {
  const named = type.samples({ ...observed }).map(({ name, value, labels = {} }) => {
    return [[name, ...Object.values(labels)].join(' '), value] as const
  })
  return Object.fromEntries(named)
}

/** Cancels a run some turns of the event loop after `reached`: `let go` where it rejects with the reason at once. */
export async function cancelAt(
  reached: Promise<unknown>,
  run: (signal: AbortSignal) => Promise<unknown>,
): Promise<string> {
  const controller = new AbortController()
  const ended = run(controller.signal).catch((error: unknown) => error)
  await reached
  for (let turn = 0; turn < 40; turn++) await new Promise((next) => setImmediate(next))
  const reason = new Error('cancelled by the test')
  const ownMs = startStopwatch()
  controller.abort(reason)
  const outcome = await ended
  if (outcome !== reason) return `ended otherwise: ${String(outcome)}`
  return ownMs() < 50 ? 'let go' : `let go after ${ownMs()} ms`
}

/** Checks `request` within the monitor's own deadline; `more` adds to the definition. */
export async function checkMonitor(
  type: AnyMonitorType,
  request: object,
  more: object = {},
  options: ContextOptions = {},
) {
  const { checkType } = type
  const monitor = type.schema.parse({ id: 'm', name: 'm', checkType, request, ...more })
  const signal = options.signal ?? deadlineAfter(type.deadlineMs(monitor))
  const observation = await type.prepare(monitor)(testContext({ ...options, signal }))
  return { ...observation, codes: observation.failures.map(({ code }) => code) }
}

/** Checks the address by a URL monitor, without a deadline; `request` and `more` add to the definition. */
export async function checkUrl(
  address: string,
  request: object = {},
  more: object = {},
  options: ContextOptions = {},
) {
  const context = { signal: new AbortController().signal, ...options }
  const observation = await checkMonitor(url, { url: address, ...request }, more, context)
  return { ...observation, observed: observation.observed as unknown as HttpObserved }
}
