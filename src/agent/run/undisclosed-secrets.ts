// Scrubs secrets that a run learned in addition to its definition: a token that a set-up script fetched is as
// secret as one in the settings.
import type { Variable } from '../../contract/monitor.ts'
import { definitionSecrets } from '../../contract/definition-secrets.ts'
import { createScrubber, type Scrubber } from '../redaction/scrub.ts'

/**
 * A scrubber for the secrets in what attempts did not disclose: by the names of headers and fields, and the values
 * that secret variables were given. Undefined where there is none.
 */
export function undisclosedScrubber(
  undisclosed: readonly Record<string, unknown>[],
  scrubber: Scrubber,
  variables: readonly Variable[],
): Scrubber | undefined {
  const hidden = new Set(variables.filter((one) => one.secret || one.locked).map((one) => one.key))
  const found = undisclosed.flatMap((one) =>
    definitionSecrets(one, (name) => hidden.has(name) || scrubber.isSensitive(name)),
  )
  return found.length === 0
    ? undefined
    : createScrubber({ secrets: found }, (name) => scrubber.isSensitive(name))
}
