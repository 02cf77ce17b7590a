// Course of an incident, derived from its updates: its present status and its duration.
import type { IncidentStatus } from '../../contract/api/incident.ts'

/** The part of an update that decides the course of its incident. */
export interface Turn {
  /** Public date of the update, milliseconds since the Unix epoch. */
  at: number
  /** Not set: the previous status remains. */
  status?: IncidentStatus | null | undefined
}

/** What follows from all updates of an incident. */
export interface Course {
  lastUpdateStatus: IncidentStatus
  /** Whole seconds; null while the incident is open and when its first update closed it. */
  durationS: number | null
}

/**
 * The course of an incident whose updates are `turns`, ordered by public date and, where those are the
 * same, by creation. The duration runs from the first update to the resolved one that closed the incident.
 * Opening and resolving it again extends the duration; one more resolved update does not. An incident whose
 * first update resolves it was reported afterwards and has no duration.
 */
export function courseOf(turns: readonly Turn[]): Course {
  let status: IncidentStatus = 'INVESTIGATING'
  let closedBy: number | undefined
  for (const [index, turn] of turns.entries()) {
    const next: IncidentStatus = turn.status ?? status
    if (next !== 'RESOLVED') closedBy = undefined
    else if (status !== 'RESOLVED') closedBy = index
    status = next
  }
  return { lastUpdateStatus: status, durationS: durationS(turns, closedBy) }
}

function durationS(turns: readonly Turn[], closedBy: number | undefined): number | null {
  const [first, last] = [turns[0], turns[closedBy ?? 0]]
  if (closedBy === undefined || closedBy === 0 || !first || !last) return null
  return Math.floor((last.at - first.at) / 1000)
}
