// The artifacts of a result in the public API: those that the result names, and their states.
import type { WireResult } from '../../contract/protocol/agent-protocol.ts'
import type { ArtifactView } from '../../contract/api/run.ts'

/**
 * The announced files in their order, then unannounced ones. `overdue`: missing files are not awaited any more.
 */
export function withArtifacts(
  announced: NonNullable<WireResult['artifacts']>,
  stored: readonly ArtifactView[],
  overdue: boolean,
): ArtifactView[] {
  const byName = new Map(stored.map((one) => [one.name, one]))
  const named = announced.map(
    ({ name, bytes, sha256, contentType }): ArtifactView =>
      byName.get(name) ?? {
        id: null,
        name,
        state: overdue ? 'missing' : 'awaited',
        refusal: null,
        bytes,
        sha256,
        contentType,
      },
  )
  const names = new Set(announced.map(({ name }) => name))
  return [...named, ...stored.filter(({ name }) => !names.has(name))]
}
