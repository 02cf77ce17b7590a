// Statements that find locations to report. Each marks what it finds, so that it is reported once.
import { instantText } from '../../../database/row-json.ts'
import type { Queryable } from '../../../database/database.ts'

/** A location as notices report it. */
export interface NoticedLocation {
  id: string
  accountId: string
  name: string
  slugName: string
  since: Date | null
  lastSeenAt: Date | null
  /** Its live agents whose own network does not work. */
  agents: { id: string; problem: string; since: string }[]
}

const LIVE = `select from agents a where a.location_id = l.id and a.state = 'live'`

/**
 * Conditions of a location `l`: it has had no agent for ten minutes, or the network of a live agent has not worked for
 * 30 seconds.
 */
const CONDITIONS = {
  unattended: {
    mark: 'absence_told_at',
    begun: `l.absent_since <= clock_timestamp() - interval '10 minutes'`,
    over: 'l.absent_since is null',
    since: 'l.absent_since',
  },
  'network-unreachable': {
    mark: 'network_problem_told_at',
    begun: `exists (${LIVE} and a.network_problem is not null
      and a.network_problem_since <= clock_timestamp() - interval '30 seconds')`,
    over: `exists (${LIVE}) and not exists (${LIVE} and a.network_problem is not null)`,
    since: `(select min(a.network_problem_since) from agents a
      where a.location_id = l.id and a.state = 'live')`,
  },
}

/** The locations of which a condition has begun, or is over, since they were marked last. */
export function markLocations(
  tx: Queryable,
  condition: keyof typeof CONDITIONS,
  phase: 'begun' | 'over',
): Promise<NoticedLocation[]> {
  const { mark, since, [phase]: holds } = CONDITIONS[condition]
  const [now, before] = phase === 'begun' ? ['clock_timestamp()', 'null'] : ['null', 'not null']
  return tx.query<NoticedLocation>({
    name: `locations-${condition}-${phase}`,
    text: `update private_locations l set ${mark} = ${now} where l.${mark} is ${before} and ${holds}
      returning l.id, l.account_id as "accountId", l.name, l.slug_name as "slugName",
        ${since} as since,
        (select max(a.last_seen_at) from agents a where a.location_id = l.id) as "lastSeenAt",
        (select coalesce(jsonb_agg(jsonb_build_object('id', a.id, 'problem', a.network_problem,
            'since', ${instantText('a.network_problem_since')})
            order by a.network_problem_since, a.id), '[]')
          from agents a where a.location_id = l.id and a.state = 'live'
            and a.network_problem is not null) as agents`,
  })
}
