// A fault as an event of Sentry's protocol: its type, its place in the program, and the runtime.
// Nothing else: no values, no names of hosts or people, no settings.
import { existsSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { arch, release as kernelRelease, type as systemName } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { EventException, EventFrame, Fault, FaultEvent } from './fault.ts'
import {
  LEFT_OUT,
  onlyKnownTokens,
  programFolder,
  tokensIn,
  tokensOfProgram,
} from './program-tokens.ts'

const MESSAGE_CHARACTERS_MAX = 1000
const STACK_CHARACTERS_MAX = 20_000
const FRAMES_MAX = 30
const CAUSES_MAX = 3
/** Time to look up the tokens of a message; in a crash most of the time is for sending. */
const TOKENS_MS = 10_000
const FATAL_TOKENS_MS = 800

/** What all events of a process share. */
export interface EventContext {
  release: string
  secrets: readonly string[]
  /** Folder of the program; for tests. */
  folder?: string
}

/** Makes the event of a thrown value or of a fault. */
export async function eventOf(
  thrown: unknown,
  { release, secrets, folder = programFolder() }: EventContext,
  isFatal = false,
): Promise<FaultEvent> {
  const faults = causesOf(thrown).map((one) => withoutSecrets(one, secrets))
  const stacks = faults.map((one) => placesIn(one, folder))
  const tokens = faults.flatMap((one, at) => [
    ...tokensIn(one.type),
    ...tokensIn(one.message),
    ...(stacks[at] ?? []).flatMap(({ caller }) => partsOf(caller)),
  ])
  const known = await tokensOfProgram(folder, tokens, isFatal ? FATAL_TOKENS_MS : TOKENS_MS)
  const values = faults.map((one, at) => exceptionOf(one, stacks[at] ?? [], known, isFatal))
  return {
    event_id: crypto.randomUUID().replaceAll('-', ''),
    timestamp: Date.now() / 1000,
    platform: 'node',
    level: isFatal ? 'fatal' : 'error',
    release,
    contexts: {
      // What follows the numbers is the builder's own.
      os: { name: systemName(), version: /^[\d.]*\d/.exec(kernelRelease())?.[0] ?? '' },
      device: { arch: arch() },
      runtime: { name: 'node', version: process.version },
    },
    exception: { values: values.toReversed() },
  }
}

/** The fault, then what caused it. */
function causesOf(thrown: unknown): Fault[] {
  const faults: Fault[] = []
  let one: unknown = thrown
  while (faults.length < CAUSES_MAX && (faults.length === 0 || one instanceof Error)) {
    faults.push(faultOf(one))
    one = (one as { cause?: unknown } | null | undefined)?.cause
  }
  return faults
}

function faultOf(thrown: unknown): Fault {
  try {
    if (thrown instanceof Error) {
      return {
        type: textOf(thrown.name),
        message: textOf(thrown.message),
        stack: textOf(thrown.stack),
      }
    }
    if (isFault(thrown)) return thrown
  } catch {
    // Getters of an error can throw, too.
  }
  return { type: 'Error', message: `an object was thrown that is no Error, but a ${typeof thrown}` }
}

/** These fields can hold anything. */
function textOf(field: unknown): string {
  return typeof field === 'string' ? field : ''
}

function isFault(thrown: unknown): thrown is Fault {
  if (typeof thrown !== 'object' || thrown === null) return false
  const { type, message } = thrown as Partial<Fault>
  return typeof type === 'string' && typeof message === 'string'
}

function withoutSecrets({ type, message, stack = '' }: Fault, secrets: readonly string[]): Fault {
  const clean = (text: string) =>
    secrets.reduce(
      (rest, secret) => (secret === '' ? rest : rest.replaceAll(secret, LEFT_OUT)),
      text,
    )
  // The first lines of a stack repeat the message, which may hold whole lines that look like places.
  const at = stack.indexOf(message)
  const places = message !== '' && at !== -1 ? stack.slice(at + message.length) : stack
  return {
    type: clean(type.slice(0, MESSAGE_CHARACTERS_MAX)),
    message: clean(message.slice(0, MESSAGE_CHARACTERS_MAX)),
    stack: places.slice(0, STACK_CHARACTERS_MAX),
  }
}

function exceptionOf(
  { type, message }: Fault,
  places: readonly Place[],
  known: ReadonlySet<string>,
  isFatal: boolean,
): EventException {
  const frames = places.map(({ caller, ...place }): EventFrame => {
    const parts = partsOf(caller)
    const isKnown = parts.length > 0 && parts.every((part) => known.has(part))
    return isKnown ? { function: caller, ...place } : place
  })
  const mechanism = { type: isFatal ? 'onuncaughtexception' : 'generic', handled: !isFatal }
  return {
    type: known.has(type) ? type : 'Error',
    value: onlyKnownTokens(message, known),
    ...(frames.length > 0 && { stacktrace: { frames } }),
    mechanism,
  }
}

interface Place {
  /** In the engine's format: `async RunningAgent.#drain`. */
  caller: string
  filename: string
  lineno: number
  in_app: boolean
}

const PLACE = /^\s+at (?:(.+?) \()?((?:file:|node:|\/|[A-Za-z]:\\)[^()]*?):(\d+):\d+\)?$/

/** The places that a stack names and that are there, the fault's own last. */
function placesIn({ stack = '' }: Fault, folder: string): Place[] {
  const places: Place[] = []
  for (const line of stack.split('\n')) {
    const [, caller = '', file = '', lineno = ''] = PLACE.exec(line) ?? []
    const where = file === '' ? undefined : whereIn(folder, file)
    if (where === undefined) continue
    places.push({ caller, ...where, lineno: Number(lineno) })
    if (places.length === FRAMES_MAX) break
  }
  return places.toReversed()
}

/** A file of the program or of Node.js by a name that says nothing of the machine; of others, nothing. */
function whereIn(folder: string, file: string): Pick<Place, 'filename' | 'in_app'> | undefined {
  if (file.startsWith('node:')) {
    const name = file.startsWith('node:internal/') ? 'node:internal' : file
    return name === 'node:internal' || isBuiltin(name)
      ? { filename: name, in_app: false }
      : undefined
  }
  const path = file.startsWith('file:') ? pathOf(file) : file
  if (path === undefined || !existsSync(path)) return undefined
  const [, inPackage] = /^.*\/(node_modules\/.+)$/s.exec(path) ?? []
  if (inPackage !== undefined) return { filename: inPackage, in_app: false }
  const filename = relative(folder, path)
  const isOurs = !filename.startsWith('..') && existsSync(join(folder, filename))
  return isOurs ? { filename, in_app: true } : undefined
}

function pathOf(url: string): string | undefined {
  try {
    return fileURLToPath(url)
  } catch {
    return undefined
  }
}

/** The identifiers in the name of a function. */
function partsOf(caller: string): string[] {
  return caller.match(/[^\s.[\]<>]+/g) ?? []
}
