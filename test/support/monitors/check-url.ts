// Runs one URL monitor as its definition says, for tests that look at what comes of it.
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
  const seen = await url.prepare(monitor)(testContext(options))
  const observed = seen.observed as unknown as HttpObserved
  return { ...seen, observed, codes: seen.failures.map((one) => one.code) }
}
