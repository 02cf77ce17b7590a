// A private location as it is read, with the reports of its agents.
import type { AgentStatus, PrivateLocation, RunningAgents } from './schema.ts'
import { compareVersions, VERSION } from '../../contract/versions.ts'
import type { PrivateLocationRow, RunningAgentText } from './queries/locations.ts'
import { maskedProxy } from './proxy.ts'
import type { Cipher } from '../secrets/cipher.ts'

/** The read model of a location. */
export function locationForm(
  cipher: Cipher,
  row: PrivateLocationRow,
  { versions }: { versions: boolean },
): PrivateLocation {
  const running = runningAgents(row.agents)
  return {
    id: row.id,
    name: row.name,
    slugName: row.slug_name,
    icon: row.icon,
    proxyUrl: row.proxy_url === null ? null : maskedProxy(cipher.decrypt(row.proxy_url)),
    keys: row.keys.map((key) => ({
      id: key.id,
      maskedKey: `...${key.suffix}`,
      created_at: new Date(key.created_at).toISOString(),
    })),
    lastSeen: row.last_seen_at?.toISOString() ?? null,
    agentCount: row.agents.length,
    agentStatus: statusOf(row),
    ...(versions && {
      minAgentVersion: running[0]?.version ?? null,
      runningAgents: running,
    }),
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at?.toISOString() ?? null,
  }
}

function statusOf({ agents, last_seen_at: lastSeen }: PrivateLocationRow): AgentStatus {
  if (agents.length > 0) return 'reporting'
  return lastSeen === null ? 'never-reported' : 'stopped-reporting'
}

/** Agents by version, the oldest version first. */
function runningAgents(agents: readonly RunningAgentText[]): RunningAgents[] {
  const byVersion = Map.groupBy(agents, (agent) => agent.version)
  return [...byVersion]
    .map(([version, some]) => ({
      version,
      isOutdated: compareVersions(version, VERSION) < 0,
      count: some.length,
      agents: some.map((agent) => ({
        id: agent.id,
        lastSeenAt: new Date(agent.last_seen_at).toISOString(),
      })),
    }))
    .toSorted((a, b) => compareVersions(a.version, b.version))
}
