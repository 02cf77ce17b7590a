// Runs one URL monitor for tests of its observation.
import type { HttpObserved } from '../../../src/monitors/http/observed.ts'
import { url } from '../../../src/monitors/url/index.ts'
import { checkMonitor } from './check-monitor.ts'
import type { ContextOptions } from './monitor-context.ts'

/** Checks the address; `request` and `more` add to the definition. */
export async function checkUrl(
  address: string,
  request: object = {},
  more: object = {},
  options: ContextOptions = {},
) {
  const never = new AbortController().signal
  const context = { signal: never, ...options }
  const observation = await checkMonitor(url, { url: address, ...request }, more, context)
  return { ...observation, observed: observation.observed as unknown as HttpObserved }
}
