// Runs one URL monitor for tests of its observation.
import type { HttpObserved } from '../../../src/monitors/http/observed.ts'
import { url } from '../../../src/monitors/url/index.ts'
import { testContext, type ContextOptions } from './monitor-context.ts'

/** Checks the address; `request` and `more` add to the definition. */
export async function checkUrl(
  address: string,
  request: object = {},
  more: object = {},
  options: ContextOptions = {},
) {
  const monitor = url.schema.parse({
    id: 'm',
    name: 'm',
    checkType: 'URL',
    request: { url: address, ...request },
    ...more,
  })
  const observation = await url.prepare(monitor)(testContext(options))
  const observed = observation.observed as unknown as HttpObserved
  return { ...observation, observed, codes: observation.failures.map((one) => one.code) }
}
