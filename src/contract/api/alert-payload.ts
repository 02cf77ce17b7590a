// Body of the notifications posted to alert channels, discriminated by `type`.
import type { AlertKind } from './alert.ts'

/** A failed or degraded run, or the run that ended an alert, as notifications show it. */
export interface BadRun {
  /** Id of the location. */
  location: string
  /** ISO 8601, as every instant here. */
  slot: string
  verdict: string
  startedAt: string
  durationMs: number
  responseTimeMs: number | null
  failures: { code: string; message: string }[]
}

/** Failures of a run in a notification, and characters of each message, at most. */
export const NOTIFIED_FAILURES_MAX = 5
export const NOTIFIED_MESSAGE_CHARACTERS_MAX = 1000

/** Links under PUBLIC_URL; null without PUBLIC_URL. */
export interface PayloadLinks {
  monitor?: string | null
  results?: string | null
  incident?: string | null
  location?: string | null
}

/** A location as notifications name it. */
export interface LocationName {
  id: string
  name: string
  slugName: string
}

/** Common fields of all notifications. */
interface NotificationFacts {
  /** Time of the platform's decision. */
  at: string
  accountId: string
  /** One sentence. */
  title: string
  links: PayloadLinks
  /** Sent more than `ALERT_BOUNDS.lateAfterS` after it happened; left out otherwise. */
  late?: true
}

/** An alert of a monitor. */
export interface AlertPayload extends NotificationFacts {
  type: `alert.${AlertKind}`
  monitor: {
    id: string
    name: string
    checkType: string
    tags: string[]
    group: { id: number; name: string } | null
  }
  /** Since when it fails or is degraded, and the number of the reminder. */
  alert: { since: string; reminder?: number }
  /** Locations with this verdict; none with a recovery. */
  locations: LocationName[]
  /** Locations of the monitor that have had no agent for long; their last verdict does not count. */
  unattended?: LocationName[]
  /** The run that decided, or the last one that was not passed. */
  run: BadRun | null
  incidentId: string | null
  /** With a recovery: the failure notification, unless the receiver is known to have accepted it. */
  failure?: { id: string } & Pick<AlertPayload, 'at' | 'locations' | 'run'>
}

/** An update of an incident, posted with notifySubscribers. */
export interface IncidentPayload extends NotificationFacts {
  type: 'incident.update'
  incident: {
    id: string
    name: string
    severity: string
    status: string
    services: { id: string; name: string }[]
  }
  update: { id: string; status?: string; description: string; publicIncidentUpdateDate: string }
}

/** A location has no agent, or has one again; its agents' own network does not work, or works again. */
export interface LocationPayload extends NotificationFacts {
  type:
    | 'location.unattended'
    | 'location.attended'
    | 'location.network-unreachable'
    | 'location.network-reachable'
  location: LocationName
  /** While there is none: no agent has ever reported, or the last one stopped reporting. */
  absence?: 'never-reported' | 'stopped-reporting'
  /** While it does not work: the agents that say so, and the code of each. */
  agents?: { id: string; problem: string; since: string }[]
  since: string | null
  lastSeenAt: string | null
}

/** Any notification body. */
export type Payload = AlertPayload | IncidentPayload | LocationPayload
