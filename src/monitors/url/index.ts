// URL monitors: one GET, its status code and its time.
import type { UrlMonitor } from '../../contract/http-monitor.ts'
import { checkHttp, httpPlan } from '../http/check.ts'
import { httpSamples } from '../http/observed.ts'
import { targetFor } from '../../network/http/target.ts'
import { urlDefinition } from './definition.ts'
import { defineMonitor } from '../monitor.ts'

/** URL monitors. */
export const url = defineMonitor<UrlMonitor>({
  definition: urlDefinition,
  prepare(monitor) {
    const first = targetFor(new URL(monitor.request.url), { method: 'GET' })
    const plan = httpPlan(monitor, first, false)
    return (context) => checkHttp(plan, context)
  },
  samples: httpSamples,
  deadlineMs: (monitor) => monitor.maxResponseTime,
})
