// Values of sensitive headers of a run: header-watch.cjs observes them in the processes of the run, and the runner
// scrubs them out of everything else that the run says.
import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as z from 'zod'
import { NAMED_VALUE_CHARS_MAX } from '../../contract/definition-secrets.ts'

/** Listener for the values of sensitive headers. */
export interface HeaderListener {
  /** Which headers, as `sensitiveNames` gives it. */
  sensitive: string
  /** Called with each value that was sent or received. */
  saw(name: string, value: string): void
}

const WATCH = fileURLToPath(new URL('./header-watch.cjs', import.meta.url))

/** Copies the watch to where our programs in the run's folder load it from. */
export async function copyHeaderWatch(ownFolder: string): Promise<void> {
  await copyFile(WATCH, join(ownFolder, 'header-watch.cjs'))
}

/** The variable that makes them watch. */
export function headerEnvironment(listener: HeaderListener | undefined): Record<string, string> {
  return listener === undefined ? {} : { VEDETTE_HEADERS: listener.sensitive }
}

/** A header as the watch reports it; untrusted, since user code can write it as well. */
export const ObservedHeader = z.object({
  name: z.string().max(1024),
  value: z.string().max(NAMED_VALUE_CHARS_MAX),
})
