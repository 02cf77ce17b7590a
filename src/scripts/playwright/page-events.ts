// Events that script-preload.cjs and plain.cjs write in addition to those of Playwright. They are untrusted: they
// come from processes that run user code.
import * as z from 'zod'

const ms = z.number().min(0).max(1e12)
const text = z.string().max(16_384)
const address = z.string().max(2048)
const page = z.int().min(0).max(1e6)
const place = z.int().min(0).max(1e9)
const more = z.literal(true).optional()

const NetworkEntry = z.object({
  event: z.literal('network'),
  /** The number of its page; absent for requests that no page made. */
  page: page.optional(),
  method: z.string().max(32),
  url: address,
  /** What Playwright calls the type of the resource, and `api` for requests of the script itself. */
  type: z.string().max(32),
  at: z.number().min(0).max(8.64e15),
  ms,
  /** To the first byte. */
  waitMs: ms.optional(),
  status: z.int().min(0).max(999).optional(),
  failure: text.optional(),
  more,
})

const PageConsole = z.object({
  event: z.literal('console'),
  page,
  type: z.string().max(32),
  text,
  url: address.optional(),
  line: place.optional(),
  more,
})

const PageError = z.object({
  event: z.literal('page-error'),
  page,
  message: text,
  stack: text.optional(),
  more,
})

const Vitals = z.object({
  event: z.literal('vitals'),
  page,
  url: address,
  ttfbMs: ms.optional(),
  fcpMs: ms.optional(),
  lcpMs: ms.optional(),
  cls: z.number().min(0).max(1e6).optional(),
  inpMs: ms.optional(),
  tbtMs: ms.optional(),
  loadMs: ms.optional(),
  more,
})

const ScriptError = z.object({
  event: z.literal('script-error'),
  message: text,
  stack: text,
  /** False where its code could not even be begun. */
  loaded: z.boolean(),
  /** Where it cannot be read, when Node.js says so; from 1. */
  file: text.optional(),
  line: place.optional(),
  column: place.optional(),
})

const Event = z.discriminatedUnion('event', [
  NetworkEntry,
  PageConsole,
  PageError,
  Vitals,
  ScriptError,
])
/** One thing that a page, a request or a plain script did. */
export type PageEvent = z.infer<typeof Event>

/** The event of a line, or undefined where it is none. */
export function parsePageEvent(line: string): PageEvent | undefined {
  try {
    return Event.safeParse(JSON.parse(line)).data
  } catch {
    return undefined
  }
}
