// How many requests a key may make: the default, the routes that have a limit of their own, and what the
// keys of agents may.

/** At most `limit` requests within `windowS` seconds. */
export interface RatePolicy {
  /** Shown in the RateLimit headers; each policy is counted apart. */
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

/** Failed authentications of one address, over which it has to wait. */
export const FAILED_AUTHENTICATION: RatePolicy = {
  name: 'failed-authentication',
  limit: 60,
  windowS: 60,
}

/** The calls of agents. */
export type AgentCallKind = 'sync' | 'presence' | 'results' | 'artifacts' | 'bundles' | 'faults'

/**
 * What one agent may do. In health it syncs when there is news, sends at most a batch in 20 ms beside one
 * of its backlog, and one file at a time; beside a
 * sync that takes long it says every few seconds that it is there, and beside runs every second how far they
 * are; it fetches a bundle once, and tells of ten faults of its own a minute at most. A short window, so that nobody waits until it counts as lost.
 */
export const AGENT_POLICIES: Readonly<Record<AgentCallKind, RatePolicy>> = {
  sync: { name: 'agent-sync', limit: 200, windowS: 10 },
  presence: { name: 'agent-presence', limit: 100, windowS: 10 },
  results: { name: 'agent-results', limit: 1_000, windowS: 10 },
  artifacts: { name: 'agent-artifacts', limit: 500, windowS: 10 },
  bundles: { name: 'agent-bundles', limit: 100, windowS: 10 },
  faults: { name: 'agent-faults', limit: 10, windowS: 10 },
}
/** A key may do what its location's live agents may, and so many more that have yet to be known. */
export const AGENTS_SPARE = 4
