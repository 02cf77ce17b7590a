// URL monitors in the public wire form; their schema stands with that of API monitors.
import { httpSummary, URL_SOURCES, UrlMonitor } from '../../contract/http-monitor.ts'
import { HTTP_METRICS } from '../../contract/type/metrics.ts'
import { defineType } from '../../contract/type/definition.ts'

export const urlDefinition = defineType({
  checkType: 'URL',
  path: 'url',
  schema: UrlMonitor,
  example: { request: { url: 'https://example.com/' } },
  sources: URL_SOURCES,
  metrics: HTTP_METRICS,
  summary: httpSummary,
  analytics: {
    paths: ['url-monitors'],
    unmeasured: ['wait', 'dns', 'tcp', 'firstByte', 'download'],
  },
})
