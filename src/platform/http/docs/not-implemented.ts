// Operations of the public document that this platform does not have, and what to use instead: one table,
// asked when no route matches, so that a route that is added later comes first.
import { TrieRouter } from 'hono/router/trie-router'

/** A sentence, and the operations that answer with it: methods, then a path. */
type Entry = readonly [sentence: string, ...operations: string[]]

const RUN = 'run checks with POST /v1/checks/{id}/runs'
const APPLY = 'apply a file of checks with `vedette apply`, or POST /v1/apply'
const KEYS = 'There are no members; make keys with a role with `vedette keys`'

/** All entries; parameters are in braces. */
export const NOT_IMPLEMENTED: readonly Entry[] = [
  [
    'A key belongs to one account; use GET /v1/accounts/me',
    'GET /v1/accounts',
    'GET /v1/accounts/{accountId}',
    'GET /next/accounts',
  ],
  [
    'There are no plans and no entitlements; use GET /v1/accounts/me',
    'GET /v1/accounts/me/entitlements',
    'GET /v1/accounts/{accountId}/entitlements',
  ],
  [
    KEYS,
    'GET /v1/accounts/{accountId}/members',
    'DELETE,PATCH /v1/accounts/{accountId}/members/{userId}',
  ],
  [
    'There are no badges; use GET /v1/check-statuses/{checkId}',
    'GET /v1/badges/checks/{checkId}',
    'GET /v1/badges/groups/{groupId}',
  ],
  [
    'There is no list of alerts; use GET /v1/alert-notifications',
    'GET /v1/check-alerts',
    'GET /v1/check-alerts/{checkId}',
  ],
  [
    'Read the checks of a group with GET /v1/checks?groupId=',
    'GET /v1/check-groups/{id}/checks',
    'GET /v1/check-groups/{groupId}/checks/{checkId}',
    'GET /v2/check-groups/{id}/checks',
    'GET /v2/check-groups/{groupId}/checks/{checkId}',
  ],
  [
    'Files are in `artifacts` of GET /v1/check-results/{checkId}/{resultId}; read them with GET /v1/artifacts/{id}',
    'GET /v1/check-results/{checkId}/{checkResultId}/assets',
  ],
  [
    `There are no check sessions; ${RUN} and follow them with GET /v1/checks/{id}/runs/{run}`,
    'POST /v1/check-sessions/trigger',
    'GET /v1/check-sessions/{checkSessionId}',
    'POST /v1/check-sessions/{checkSessionId}/cancel',
    'GET /v1/check-sessions/{checkSessionId}/completion',
    'POST /v2/check-sessions/trigger',
    'GET /v2/check-sessions/{checkSessionId}',
    'GET /v2/check-sessions/{checkSessionId}/completion',
  ],
  ['Create a check under the path of its type, such as POST /v1/checks/url', 'POST /v1/checks'],
  [
    'Use GET /v1/checks and GET /v1/checks/{id}',
    'GET /v2/checks',
    'GET /v2/checks/{id}',
    'GET /v3/checks',
    'GET /v3/checks/{id}',
  ],
  [
    'There are no client certificates; use another way of authentication, such as headers with a secret variable',
    'GET,POST /v1/client-certificates',
    'GET,DELETE /v1/client-certificates/{id}',
  ],
  [
    'There are no dashboards; use GET /v1/check-statuses, or the metrics for Prometheus',
    'GET,POST /v1/dashboards',
    'GET,PUT,DELETE /v1/dashboards/{dashboardId}',
  ],
  [
    `There are no deployment triggers; ${RUN} from the pipeline`,
    'GET,POST /v1/deployment-triggers',
  ],
  [
    'There are no error groups; use GET /v1/check-results/{checkId}?verdict=failed',
    'GET /v1/error-groups',
    'GET /v1/error-groups/checks/{checkId}',
    'GET,PATCH /v1/error-groups/{id}',
  ],
  [
    'Incidents belong to status pages; use /v1/status-pages/incidents',
    'POST /v1/incidents',
    'GET,PUT,DELETE /v1/incidents/{id}',
    'POST /v1/incidents/{incidentId}/updates',
    'PUT,DELETE /v1/incidents/{incidentId}/updates/{id}',
  ],
  [
    'There are no maintenance windows; set `muted` or `activated` of the checks',
    'GET,POST /v1/maintenance-windows',
    'GET,PUT,DELETE /v1/maintenance-windows/{id}',
    'GET /v1/maintenance-windows/{id}/maintenances',
    'GET,PATCH,DELETE /v1/maintenance-windows/{id}/maintenances/{maintenanceId}',
    'POST /v1/maintenance-windows/{id}/maintenances/{maintenanceId}/updates',
    'PUT,DELETE /v1/maintenance-windows/{id}/maintenances/{maintenanceId}/updates/{updateId}',
  ],
  ['There are no reports; use GET /v1/analytics/{type}/{id}', 'GET /v1/reporting'],
  [
    'There is no analysis of causes; read `failures` of GET /v1/check-results/{checkId}/{resultId}',
    'POST /v1/root-cause-analyses/error-groups/{errorGroupId}',
    'POST /v1/root-cause-analyses/test-session-error-groups/{testSessionErrorGroupId}',
    'GET /v1/root-cause-analyses/{id}',
  ],
  ['Use GET /v1/runtimes, which describes every runtime', 'GET /v1/runtimes/{id}'],
  [
    'Definitions are not scanned for secrets; use variables with `secret` (/v1/variables)',
    'GET /v1/secret-scans',
  ],
  [
    'There are no snippets; write the script into the check or its group',
    'GET,POST /v1/snippets',
    'GET,PUT,DELETE /v1/snippets/{id}',
  ],
  [
    'Checks run in your own locations, from the addresses of their agents (GET /v1/private-locations)',
    'GET /v1/static-ips',
    'GET /v1/static-ips-by-region',
    'GET /v1/static-ips.txt',
    'GET /v1/static-ipv6s',
    'GET /v1/static-ipv6s-by-region',
    'GET /v1/static-ipv6s.txt',
  ],
  [
    `There are no test sessions; try a file with \`vedette check\`, or ${RUN}`,
    'GET /v1/test-sessions',
    'POST /v1/test-sessions/run',
    'POST /v1/test-sessions/trigger',
    'POST /next/test-sessions/trigger',
    'GET /v1/test-sessions/{testSessionId}',
    'POST /v1/test-sessions/{testSessionId}/cancel',
    'GET /v1/test-sessions/{testSessionId}/completion',
    'GET /v1/test-sessions/{testSessionId}/results/{testSessionResultId}',
    'GET /v1/test-sessions/{testSessionId}/results/{testSessionResultId}/assets',
    'GET /v1/test-session-error-groups',
    'GET /v1/test-session-error-groups/projects/{projectId}',
    'GET,PATCH /v1/test-session-error-groups/{id}',
  ],
  [
    `There are no trigger links; ${RUN}`,
    'GET,POST,DELETE /v1/triggers/checks/{checkId}',
    'GET,POST,DELETE /v1/triggers/check-groups/{groupId}',
  ],
  [
    `There are no projects; ${APPLY}`,
    'POST /v1/projects/deploy',
    'GET,DELETE /v1/projects/{projectId}',
    'GET /next/projects/{projectId}',
    'POST /next/checkly-storage/upload-code-bundle',
  ],
]

/** What to use instead of an operation; undefined where the public document does not have it either. */
export function insteadOf(method: string, path: string): string | undefined {
  return ROUTER.match(method, path)[0][0]?.[0]
}

const ROUTER = new TrieRouter<string>()
for (const [sentence, ...operations] of NOT_IMPLEMENTED) {
  for (const { method, path } of operations.flatMap(operationsOf)) {
    ROUTER.add(method, path.replaceAll(/\{(\w+)\}/g, ':$1'), sentence)
  }
}

/** The operations of a text such as `GET,PUT /v1/things/{id}`. */
export function operationsOf(text: string): { method: string; path: string }[] {
  const [methods = '', path = ''] = text.split(' ')
  return methods.split(',').map((method) => ({ method, path }))
}
