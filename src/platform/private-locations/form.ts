// A private location as it is read, with the reports of its agents. The password of its proxy is stored and never
// shown.
import { SECRET_MASK } from '../../contract/api/resource.ts'
import type { PrivateLocation, RunningAgents } from './schema.ts'
import { compareVersions, VERSION } from '../../contract/versions.ts'
import type { PrivateLocationRow } from './queries/locations.ts'
import type { Cipher } from '../secrets/cipher.ts'

/** The read model of a location. */
export function locationForm(
  cipher: Cipher,
  { proxyUrl, agents, ...location }: PrivateLocationRow,
  { versions }: { versions: boolean },
): PrivateLocation {
  const absent = location.lastSeen === null ? 'never-reported' : 'stopped-reporting'
  const runningAgents = byVersion(agents)
  return {
    ...location,
    proxyUrl: proxyUrl === null ? null : maskedProxy(cipher.decrypt(proxyUrl)),
    agentCount: agents.length,
    agentStatus: agents.length > 0 ? 'reporting' : absent,
    ...(versions && { minAgentVersion: runningAgents[0]?.version ?? null, runningAgents }),
  }
}

/** Agents by version, the oldest version first. */
function byVersion(agents: PrivateLocationRow['agents']): RunningAgents[] {
  return [...Map.groupBy(agents, (agent) => agent.version)]
    .map(([version, some]) => ({
      version,
      isOutdated: compareVersions(version, VERSION) < 0,
      count: some.length,
      agents: some.map(({ id, lastSeenAt }) => ({ id, lastSeenAt })),
    }))
    .toSorted((a, b) => compareVersions(a.version, b.version))
}

/** The URL with a mask in place of its password. */
function maskedProxy(url: string): string {
  const parsed = new URL(url)
  return parsed.password === '' ? url : withPassword(parsed, SECRET_MASK)
}

/**
 * The URL with its mask replaced by the stored password; undefined without a stored password for the same
 * address.
 */
export function unmaskedProxy(url: string, stored: string | undefined): string | undefined {
  const parsed = new URL(url)
  if (parsed.password !== SECRET_MASK) return url
  const isSame = stored !== undefined && maskedProxy(stored) === withPassword(parsed, SECRET_MASK)
  return isSame ? stored : undefined
}

function withPassword(url: URL, password: string): string {
  const copy = new URL(url)
  copy.password = password
  return copy.href
}
