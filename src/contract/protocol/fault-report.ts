// Fault reports of the program itself: read from envelopes of the Sentry protocol
// (https://develop.sentry.dev/sdk/envelopes), and shown by the platform.
import * as z from 'zod'

/** Bounds of a report. */
export const FAULT_BOUNDS = {
  /** One envelope. */
  envelopeBytesMax: 262_144,
  envelopeItemsMax: 20,
  /** Distinct faults stored of one agent, and of all agents of a location. */
  perAgentMax: 50,
  perLocationMax: 500,
  /** Retention after the last report. */
  retentionMs: 30 * 86_400_000,
  messageCharactersMax: 1000,
  placesMax: 50,
} as const

const NAME_CHARACTERS_MAX = 200

/** Text, truncated to its bound, without characters that PostgreSQL cannot store. */
const text = (charactersMax: number) =>
  z.preprocess(
    (value) => (typeof value === 'string' ? value : ''),
    z.string().transform((all) => all.replaceAll('\0', '').slice(0, charactersMax).toWellFormed()),
  )
const name = text(NAME_CHARACTERS_MAX)

const frames = z.array(z.object({ function: name, filename: name, lineno: z.unknown() }))
const exceptions = z.array(
  z.object({
    type: name,
    value: text(FAULT_BOUNDS.messageCharactersMax),
    stacktrace: z.object({ frames: frames.catch([]) }).catch({ frames: [] }),
  }),
)
const named = z.object({ name, version: name }).catch({ name: '', version: '' })

/** The fields read of an event; every SDK sends more. */
const SentryEvent = z.object({
  level: z.enum(['fatal', 'error', 'warning', 'info', 'debug']).catch('error'),
  release: name,
  message: text(FAULT_BOUNDS.messageCharactersMax),
  contexts: z
    .object({ os: named, runtime: named, device: z.object({ arch: name }).catch({ arch: '' }) })
    .catch({
      os: { name: '', version: '' },
      runtime: { name: '', version: '' },
      device: { arch: '' },
    }),
  exception: z
    .union([z.object({ values: exceptions }).transform(({ values }) => values), exceptions])
    .catch([]),
})

/** A place in the program. */
const FaultPlace = z
  .object({ function: z.string().nullable(), file: z.string(), line: z.int().nullable() })
  .meta({ id: 'FaultPlace' })

/** A fault and the system it happened on. */
export const FaultReport = z.object({
  level: z.string().meta({ description: '`fatal` ended the process', example: 'error' }),
  type: z.string().meta({ example: 'TypeError' }),
  message: z
    .string()
    .meta({ description: 'Its fixed text or its code; what else its message says is left out' }),
  stack: z.array(FaultPlace).meta({ description: 'Where it happened, the nearest place first' }),
  release: z.string().meta({ example: 'vedette-agent@8.4.0' }),
  os: z.string().meta({ example: 'Linux 6.12.41 x64' }),
  engine: z.string().meta({ example: 'node v24.12.0' }),
})
export type FaultReport = z.infer<typeof FaultReport>

const occurrences = {
  count: z.int().meta({ description: 'Reports of it; an agent sends the same one once an hour' }),
  firstSeenAt: z.iso.datetime(),
  lastSeenAt: z.iso.datetime(),
}

/** A fault of an agent as it is listed. */
export const AgentError = FaultReport.extend({ agentId: z.guid(), ...occurrences }).meta({
  id: 'AgentError',
})
/** A fault of the platform as it is listed. */
export const PlatformError = FaultReport.extend(occurrences).meta({ id: 'PlatformError' })

/** Converts a Sentry event to the stored form; undefined for anything else. */
export function reportOf(event: unknown): FaultReport | undefined {
  const read = SentryEvent.safeParse(event)
  if (!read.success) return undefined
  const { level, release, message, contexts, exception } = read.data
  const { os, runtime, device } = contexts
  const last = exception.at(-1)
  if (last === undefined && message === '') return undefined
  return {
    level,
    release,
    type: last?.type || 'Error',
    message: last === undefined ? message : last.value,
    stack: (last?.stacktrace.frames ?? [])
      .slice(-FAULT_BOUNDS.placesMax)
      .toReversed()
      .map(({ function: caller, filename, lineno }) => ({
        function: caller === '' ? null : caller,
        file: filename,
        line: Number.isSafeInteger(lineno) ? (lineno as number) : null,
      })),
    os: joined(os.name, os.version, device.arch),
    engine: joined(runtime.name, runtime.version),
  }
}

function joined(...parts: string[]): string {
  return parts.filter((part) => part !== '').join(' ')
}

/** Content of an envelope. */
export interface Envelope {
  /** From its header; undefined without one. */
  eventId: string | undefined
  /** Its items of the type `event`, parsed as JSON. */
  events: unknown[]
}

/**
 * Parses an envelope: a header line of JSON, then items, each with a header line of JSON with its type and,
 * if its bytes contain line breaks, its length. Skips items of other types. Throws SyntaxError with a message
 * for the sender.
 */
export function readEnvelope(bytes: Buffer): Envelope {
  const head = recordIn(lineAt(bytes, 0), 'the head of the envelope')
  const events: unknown[] = []
  let at = lineAt(bytes, 0).length + 1
  for (let items = 0; at < bytes.length; items++) {
    if (items === FAULT_BOUNDS.envelopeItemsMax) throw new SyntaxError('it has too many items')
    const line = lineAt(bytes, at)
    at += line.length + 1
    if (line.length === 0) continue
    const { type, length } = recordIn(line, 'the head of an item')
    if (typeof type !== 'string') throw new SyntaxError('an item has no type')
    const item = itemAt(bytes, at, length)
    at += item.length + 1
    if (type === 'event') events.push(recordIn(item, 'an event'))
  }
  const { event_id: eventId } = head
  return { eventId: typeof eventId === 'string' ? eventId : undefined, events }
}

function itemAt(bytes: Buffer, at: number, length: unknown): Buffer {
  if (length === undefined) return lineAt(bytes, at)
  const isWhole = Number.isSafeInteger(length) && (length as number) >= 0
  const end = at + Number(length)
  if (!isWhole || end > bytes.length) throw new SyntaxError('an item ends before its length')
  if (end < bytes.length && bytes[end] !== LINE_END) {
    throw new SyntaxError('an item continues after its length')
  }
  return bytes.subarray(at, end)
}

const LINE_END = 0x0a

function lineAt(bytes: Buffer, at: number): Buffer {
  const end = bytes.indexOf(LINE_END, at)
  return bytes.subarray(at, end === -1 ? bytes.length : end)
}

function recordIn(bytes: Buffer, what: string): Record<string, unknown> {
  let value: unknown
  try {
    value = JSON.parse(bytes.toString())
  } catch {
    throw new SyntaxError(`${what} is not JSON`)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new SyntaxError(`${what} is not an object`)
  }
  return value as Record<string, unknown>
}
