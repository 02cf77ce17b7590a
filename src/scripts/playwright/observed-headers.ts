// Values of sensitive headers of a run: header-watch.cjs observes them in the processes of the run, and the runner
// scrubs them out of everything else that the run says.
import * as z from 'zod'
import { NAMED_VALUE_CHARS_MAX } from '../../contract/definition-secrets.ts'

/** Listener for the values of sensitive headers. */
export interface HeaderListener {
  /** Which headers, as `sensitiveNames` gives it. */
  sensitive: string
  /** Called with each value that was sent or received; without a name when there are more than are reported. */
  saw(name: string, value: string): void
}

/** The variable that makes our programs in the run watch. */
export function headerEnvironment(listener: HeaderListener | undefined): Record<string, string> {
  return listener === undefined ? {} : { VEDETTE_HEADERS: listener.sensitive }
}

/** A header as the watch reports it; untrusted, since user code can write it as well. */
export const ObservedHeader = z.object({
  name: z.string().max(1024),
  value: z.string().max(NAMED_VALUE_CHARS_MAX),
})
