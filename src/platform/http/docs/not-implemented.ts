// Operations of the public document that this platform does not have, and what to use instead: one table,
// asked when no route matches, so that a route that is added later comes first.

const RUN = 'run checks with POST /v1/checks/{id}/runs'
const APPLY = 'apply a file of checks with `vedette apply`, or POST /v1/apply'

/** A sentence for paths that begin like the expression; the first that fits counts. */
const INSTEAD: readonly (readonly [paths: string, sentence: string])[] = [
  [
    'v1/accounts/[^/]+/entitlements',
    'There are no plans and no entitlements; use GET /v1/accounts/me',
  ],
  ['v1/accounts/[^/]+/members', 'There are no members; make keys with a role with `vedette keys`'],
  ['(v1|next)/accounts', 'A key belongs to one account; use GET /v1/accounts/me'],
  ['v1/badges', 'There are no badges; use GET /v1/check-statuses/{checkId}'],
  ['v1/check-alerts', 'There is no list of alerts; use GET /v1/alert-notifications'],
  ['v[12]/check-groups/[^/]+/checks', 'Read the checks of a group with GET /v1/checks?groupId='],
  [
    'v1/check-results/[^/]+/[^/]+/assets',
    'Files are in `artifacts` of GET /v1/check-results/{checkId}/{resultId}; read them with GET /v1/artifacts/{id}',
  ],
  [
    'v[12]/check-sessions',
    `There are no check sessions; ${RUN} and follow them with GET /v1/checks/{id}/runs/{run}`,
  ],
  ['v1/checks$', 'Create a check under the path of its type, such as POST /v1/checks/url'],
  ['v[23]/checks', 'Use GET /v1/checks and GET /v1/checks/{id}'],
  [
    'v1/client-certificates',
    'There are no client certificates; use another way of authentication, such as headers with a secret variable',
  ],
  [
    'v1/dashboards',
    'There are no dashboards; use GET /v1/check-statuses, or the metrics for Prometheus',
  ],
  ['v1/deployment-triggers', `There are no deployment triggers; ${RUN} from the pipeline`],
  [
    'v1/error-groups',
    'There are no error groups; use GET /v1/check-results/{checkId}?verdict=failed',
  ],
  ['v1/incidents', 'Incidents belong to status pages; use /v1/status-pages/incidents'],
  [
    'v1/maintenance-windows',
    'There are no maintenance windows; set `muted` or `activated` of the checks',
  ],
  ['v1/reporting', 'There are no reports; use GET /v1/analytics/{type}/{id}'],
  [
    'v1/root-cause-analyses',
    'There is no analysis of causes; read `failures` of GET /v1/check-results/{checkId}/{resultId}',
  ],
  ['v1/runtimes', 'Use GET /v1/runtimes, which describes every runtime'],
  [
    'v1/secret-scans',
    'Definitions are not scanned for secrets; use variables with `secret` (/v1/variables)',
  ],
  ['v1/snippets', 'There are no snippets; write the script into the check or its group'],
  [
    'v1/static-ip.*',
    'Checks run in your own locations, from the addresses of their agents (GET /v1/private-locations)',
  ],
  [
    '(v1|next)/test-session(s|-error-groups)',
    `There are no test sessions; try a file with \`vedette check\`, or ${RUN}`,
  ],
  ['v1/triggers', `There are no trigger links; ${RUN}`],
  ['(v1|next)/projects|next/checkly-storage', `There are no projects; ${APPLY}`],
]

const PATTERNS = INSTEAD.map(([paths, sentence]) => {
  return { pattern: new RegExp(`^/(?:${paths})(?:/|$)`), sentence }
})

/** What to use instead of an operation; undefined where the public document does not have it either. */
export function insteadOf(path: string): string | undefined {
  return PATTERNS.find(({ pattern }) => pattern.test(path))?.sentence
}
