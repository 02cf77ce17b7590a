// Rate limits of API keys: the default, routes with their own limit, and the keys of agents.

/** At most `limit` requests within `windowS` seconds. */
export interface RatePolicy {
  /** Shown in the RateLimit headers; each policy has its own count. */
  name: string
  limit: number
  windowS: number
}

/** The policy of every route that names no other. */
export const DEFAULT_POLICY: RatePolicy = { name: 'default', limit: 600, windowS: 60 }

/** Routes with limits of their own, by the name of their policy. */
export const CUSTOM_POLICIES = {
  analytics: { name: 'analytics', limit: 30, windowS: 60 },
  'check-results': { name: 'check-results', limit: 60, windowS: 60 },
  'alert-notifications': { name: 'alert-notifications', limit: 5, windowS: 10 },
  'on-demand-runs': { name: 'on-demand-runs', limit: 60, windowS: 60 },
  'private-location-metrics': { name: 'private-location-metrics', limit: 300, windowS: 86_400 },
} as const satisfies Record<string, RatePolicy>

/** Failed authentications of one address. */
export const FAILED_AUTHENTICATION: RatePolicy = {
  name: 'failed-authentication',
  limit: 60,
  windowS: 60,
}

/** The calls of agents. */
export type AgentCallKind = 'sync' | 'presence' | 'results' | 'artifacts' | 'bundles' | 'faults'

/**
 * Rate limits of one agent. A healthy agent syncs on changes and sends at most one new and one old batch every
 * 20 ms, and one file at a time. During a long sync it calls presence every few seconds, with running runs
 * every second. It fetches a bundle once and reports at most ten faults a minute. The window is short, so
 * that a limited agent does not wait until it counts as lost.
 */
export const AGENT_POLICIES: Readonly<Record<AgentCallKind, RatePolicy>> = {
  sync: { name: 'agent-sync', limit: 200, windowS: 10 },
  presence: { name: 'agent-presence', limit: 100, windowS: 10 },
  results: { name: 'agent-results', limit: 1_000, windowS: 10 },
  artifacts: { name: 'agent-artifacts', limit: 500, windowS: 10 },
  bundles: { name: 'agent-bundles', limit: 100, windowS: 10 },
  faults: { name: 'agent-faults', limit: 10, windowS: 10 },
}
/** The limit of a key covers its location's live agents and this many unknown ones. */
export const AGENTS_SPARE = 4
