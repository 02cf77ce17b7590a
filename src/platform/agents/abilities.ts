// Abilities of an agent: those that it reports, restricted to those of its version and image.
import type { AgentFacts } from '../../contract/protocol/agent-protocol.ts'
import { RUNTIMES } from '../../contract/runtimes.ts'
import { type Manifest, manifestFor, MANIFESTS } from '../../contract/versions.ts'
import { DEFINITIONS } from '../../monitors/definitions.ts'
import { abilityNames } from './assignment.ts'
import { ApiError } from '../http/errors.ts'

/** Types of monitors that a version has had. */
const RELEASED_TYPES = new Set(MANIFESTS.flatMap(({ checkTypes }) => checkTypes))

/** The manifest of an agent's version. Throws 403 for one before the first milestone. */
export function manifestOf({ version }: AgentFacts): Manifest {
  const manifest = manifestFor(version)
  if (manifest !== undefined) return manifest
  const first = MANIFESTS[0]?.version
  throw new ApiError(403, `Agent ${version} is too old: this platform needs ${first} or newer`)
}

/**
 * The abilities of an agent, in the format of needs and in a fixed order, so that equal ones are equal. An
 * image that the manifest does not name may have everything that its version has. A manifest says which
 * runtimes an image brings along; older ones can be installed next to them, and what is installed counts.
 */
export function abilitiesOf(agent: AgentFacts, manifest: Manifest): string[] {
  const types = new Set(manifest.images[agent.image] ?? manifest.checkTypes)
  // A type that no version has yet is for the agent to know.
  const isAble = (type: string) =>
    types.has(type) || (DEFINITIONS.has(type) && !RELEASED_TYPES.has(type))
  const engines = new Set(manifest.engines)
  const names = abilityNames({
    checkTypes: agent.checkTypes.filter(isAble),
    engines: agent.engines.filter((engine) => engines.has(engine)),
    runtimes: agent.runtimes.filter((runtime) => RUNTIMES.has(runtime)),
  })
  return [...new Set(names)].toSorted()
}
