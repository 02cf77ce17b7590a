// What sensitive headers of a run held: header-watch.cjs sees it in the processes of the run, and who runs it
// scrubs it out of everything else that the run says.
import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as z from 'zod'
import { NAMED_VALUE_CHARS_MAX } from '../../contract/definition-secrets.ts'

/** Who asks for what headers of a run held. */
export interface HeaderHearing {
  /** Which headers, as `sensitiveNames` gives it. */
  sensitive: string
  /** Told of each value that was sent or came. */
  saw(name: string, value: string): void
}

const WATCHES: readonly string[] = ['header-watch.cjs', 'header-watch-bun.cjs']

/** Puts the watch where programs of ours in the run's folder load it from. */
export async function copyHeaderWatch(ownFolder: string): Promise<void> {
  for (const name of WATCHES) {
    await copyFile(fileURLToPath(new URL(`./${name}`, import.meta.url)), join(ownFolder, name))
  }
}

/** The variable that makes them watch. */
export function headerEnvironment(hearing: HeaderHearing | undefined): Record<string, string> {
  return hearing === undefined ? {} : { VEDETTE_HEADERS: hearing.sensitive }
}

/** A header as the watch tells it; user code stands behind it as well. */
export const SeenHeader = z.object({
  name: z.string().max(1024),
  value: z.string().max(NAMED_VALUE_CHARS_MAX),
})

const Event = SeenHeader.extend({ event: z.literal('header') })

/** Hands on a line of the events file, if it is one of the watch. */
export function hearHeader(line: string, hearing: HeaderHearing | undefined): void {
  if (hearing === undefined || !line.startsWith('{"event":"header"')) return
  try {
    const { success, data } = Event.safeParse(JSON.parse(line))
    if (success) hearing.saw(data.name, data.value)
  } catch {
    // No line of ours.
  }
}
