// URL monitors: one GET, its status code and its time.
import type { UrlMonitor } from '../../contract/http-monitor.ts'
import { LIMITS } from '../../contract/versions.ts'
import { checkHttp, type HttpPlan } from '../http/check.ts'
import type { HttpObserved } from '../http/observed.ts'
import { httpSamples } from '../http/samples.ts'
import { targetFor } from '../../network/http/target.ts'
import { urlDefinition } from './definition.ts'
import { defineMonitor } from '../monitor.ts'

function makePlan(monitor: UrlMonitor): HttpPlan {
  const { request } = monitor
  return {
    first: targetFor(new URL(request.url), { method: 'GET' }),
    family: request.ipFamily,
    followRedirects: request.followRedirects,
    skipSSL: request.skipSSL,
    tls: request.tls,
    allAddresses: request.allAddresses,
    bufferBytes: LIMITS.bodyExcerptBytesMax,
    assertions: request.assertions,
    shouldFail: monitor.shouldFail,
    thresholds: monitor,
    showBody: false,
  }
}

/** URL monitors. */
export const url = defineMonitor<UrlMonitor>({
  definition: urlDefinition,
  prepare(monitor) {
    const plan = makePlan(monitor)
    return (context) => checkHttp(plan, context)
  },
  samples: (observed) => httpSamples(observed as unknown as HttpObserved),
  deadlineMs: (monitor) => monitor.maxResponseTime,
})
