// API monitors in the public wire form; their schema stands with that of URL monitors and groups.
import { API_SOURCES, ApiMonitor, httpSummary, scriptFields } from '../../contract/http-monitor.ts'
import { HTTP_METRICS } from '../../contract/type/metrics.ts'
import { scriptRequirements } from '../../contract/script-fields.ts'
import { defineType } from '../../contract/type/definition.ts'

export const apiDefinition = defineType({
  checkType: 'API',
  path: 'api',
  schema: ApiMonitor,
  example: { request: { url: 'https://example.com/', method: 'GET' } },
  sources: API_SOURCES,
  metrics: HTTP_METRICS,
  userCode: (monitor) => (scriptFields(monitor).length > 0 ? 'scripts' : undefined),
  requirements: (monitor) => (scriptFields(monitor).length > 0 ? scriptRequirements(monitor) : []),
  summary: httpSummary,
  analytics: {
    paths: ['api-checks'],
    unmeasured: ['wait', 'dns', 'tcp', 'firstByte', 'download'],
  },
})
