// Events that reporter.cjs writes. They are untrusted: they come from a process that runs user code, so a line may
// be anything.
import * as z from 'zod'

const ms = z.number().min(0).max(1e12)
const instant = z.number().min(0).max(8.64e15)
const text = z.string().max(65_536)
const name = z.string().max(4096)
const number = z.int().min(-1).max(1e9)

const RunError = z.object({
  message: text,
  stack: text.optional(),
  /** The lines of source around it. */
  snippet: text.optional(),
  file: name.optional(),
  line: number.optional(),
  column: number.optional(),
})
/** An error, as Playwright reports it. */
export type RunError = z.infer<typeof RunError>

const Attachment = z.object({
  name,
  contentType: name,
  /** The file, where it is one. */
  path: name.optional(),
  bytes: number.optional(),
  /** Small ones that are no files, in base64. */
  body: z.string().max(1_500_000).optional(),
})
/** Something that a test attached. */
export type RunAttachment = z.infer<typeof Attachment>

const STATUSES = ['passed', 'failed', 'timedOut', 'skipped', 'interrupted'] as const
/** How one attempt at a test ended. */
export type AttemptStatus = (typeof STATUSES)[number]

const OUTCOMES = ['expected', 'unexpected', 'flaky', 'skipped'] as const
/** What all attempts at a test come to. */
export type TestOutcome = (typeof OUTCOMES)[number]

const attempt = { id: name, retry: z.int().min(0).max(1000) }

const Event = z.discriminatedUnion('event', [
  z.object({
    event: z.literal('begin'),
    playwright: name.optional(),
    workers: number.optional(),
    tests: number,
    /** Its configuration asks for a browser without its own sandbox. */
    asksWithoutSandbox: z.boolean().optional(),
  }),
  z.object({
    event: z.literal('test'),
    id: name,
    titles: z.array(text).max(100),
    project: name,
    file: name,
    line: number,
    tags: z.array(name).max(1000),
    retries: number,
    expectedStatus: z.enum(STATUSES),
  }),
  z.object({ event: z.literal('start'), ...attempt, worker: number, at: instant }),
  z.object({
    event: z.literal('step'),
    ...attempt,
    title: text,
    category: name,
    depth: z.int().min(0).max(1000),
    at: instant,
    ms,
    error: RunError.optional(),
  }),
  z.object({
    event: z.literal('output'),
    stream: z.enum(['stdout', 'stderr']),
    id: name.optional(),
    retry: number.optional(),
    text,
  }),
  z.object({
    event: z.literal('end'),
    ...attempt,
    status: z.enum(STATUSES),
    outcome: z.enum(OUTCOMES),
    ms,
    errors: z.array(RunError).max(1000),
    annotations: z.array(z.object({ type: text, description: text.optional() })).max(1000),
    attachments: z.array(Attachment).max(10_000),
    /** There would be a video of it, were there a program that makes them. */
    isVideoMissing: z.boolean().optional(),
  }),
  z.object({ event: z.literal('error'), error: RunError }),
  z.object({ event: z.literal('finish'), status: name, ms }),
])
/** One thing that happened in a run of Playwright. */
export type PlaywrightEvent = z.infer<typeof Event>

/** The event of a line, or undefined where it is none. */
export function parsePlaywrightEvent(line: string): PlaywrightEvent | undefined {
  let json: unknown
  try {
    json = JSON.parse(line)
  } catch {
    return undefined
  }
  const parsed = Event.safeParse(json)
  return parsed.success ? parsed.data : undefined
}
