// The files of a result as the public API shows them: those that the result names, and what became of
// each of them.
import type { WireResult } from '../../contract/protocol/agent-protocol.ts'
import type { ArtifactView } from '../../contract/api/run.ts'

/**
 * The announced files in their order, then those that nobody announced. `overdue`: those that have not come
 * are not awaited any more.
 */
export function withArtifacts(
  announced: NonNullable<WireResult['artifacts']>,
  kept: readonly ArtifactView[],
  overdue: boolean,
): ArtifactView[] {
  const byName = new Map(kept.map((one) => [one.name, one]))
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
  return [...named, ...kept.filter(({ name }) => !names.has(name))]
}
