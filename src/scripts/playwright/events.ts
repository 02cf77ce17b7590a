// Events of a run: of Playwright by reporter.cjs, of pages and requests by script-preload.cjs, of a plain script by
// plain.cjs, and headers. They are untrusted: they come from processes that run user code, so a line may be anything.
import * as z from 'zod'
import { jsonOf } from '../../contract/exact-json.ts'
import { ObservedHeader } from './observed-headers.ts'

const ms = z.number().min(0).max(1e12)
const instant = z.number().min(0).max(8.64e15)
const text = z.string().max(65_536)
const name = z.string().max(4096)
const number = z.int().min(-1).max(1e9)
const pageText = z.string().max(16_384)
const address = z.string().max(2048)
const place = z.int().min(0).max(1e9)

const RunError = z.object({
  message: text,
  stack: text.optional(),
  /** The lines of source around it. */
  snippet: text.optional(),
  file: name.optional(),
  line: number.optional(),
  column: number.optional(),
})
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
export type RunAttachment = z.infer<typeof Attachment>

const STATUSES = ['passed', 'failed', 'timedOut', 'skipped', 'interrupted'] as const
/** How one attempt at a test ended. */
export type AttemptStatus = (typeof STATUSES)[number]

const OUTCOMES = ['expected', 'unexpected', 'flaky', 'skipped'] as const
/** What all attempts at a test come to. */
export type TestOutcome = (typeof OUTCOMES)[number]

const attempt = { id: name, retry: z.int().min(0).max(1000) }

const PLAYWRIGHT_EVENTS = [
  z.object({
    event: z.literal('begin'),
    playwright: name.optional(),
    workers: number.optional(),
    tests: number,
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
  z.object({ event: z.literal('start'), ...attempt, at: instant }),
  z.object({
    event: z.literal('step'),
    ...attempt,
    title: text,
    category: name,
    depth: z.int().min(0).max(1000),
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
  z.object({ event: z.literal('attachment'), ...attempt, ...Attachment.shape }),
  z.object({
    event: z.literal('end'),
    ...attempt,
    status: z.enum(STATUSES),
    outcome: z.enum(OUTCOMES),
    ms,
    errors: z.array(RunError).max(1000),
    annotations: z.array(z.object({ type: text, description: text.optional() })).max(1000),
    /** Errors and annotations that are not in it. */
    leftOut: number.optional(),
    /** There would be a video of it, were there a program that makes them. */
    isVideoMissing: z.boolean().optional(),
  }),
  z.object({ event: z.literal('error'), error: RunError }),
  z.object({ event: z.literal('finish'), status: name, ms }),
] as const

/** Of one page; `more`: it is the last one of its kind that was reported. */
const ofPage = { page: z.int().min(0).max(1e6), more: z.literal(true).optional() }

const PAGE_EVENTS = [
  z.object({
    event: z.literal('network'),
    ...ofPage,
    /** Absent for requests that no page made. */
    page: ofPage.page.optional(),
    method: z.string().max(32),
    url: address,
    /** What Playwright calls the type of the resource, and `api` for requests of the script itself. */
    type: z.string().max(32),
    at: instant,
    ms,
    /** To the first byte. */
    waitMs: ms.optional(),
    status: z.int().min(0).max(999).optional(),
    failure: pageText.optional(),
  }),
  z.object({
    event: z.literal('console'),
    ...ofPage,
    type: z.string().max(32),
    text: pageText,
    url: address.optional(),
    line: place.optional(),
  }),
  z.object({
    event: z.literal('page-error'),
    ...ofPage,
    message: pageText,
    stack: pageText.optional(),
  }),
  z.object({
    event: z.literal('vitals'),
    ...ofPage,
    url: address,
    ttfbMs: ms.optional(),
    fcpMs: ms.optional(),
    lcpMs: ms.optional(),
    cls: z.number().min(0).max(1e6).optional(),
    inpMs: ms.optional(),
    tbtMs: ms.optional(),
    loadMs: ms.optional(),
  }),
  z.object({
    event: z.literal('script-error'),
    message: pageText,
    stack: pageText,
    /** False where its code could not even be begun. */
    loaded: z.boolean(),
    /** Where it cannot be read, when Node.js says so; from 1. */
    file: pageText.optional(),
    line: place.optional(),
    column: place.optional(),
  }),
] as const

const Event = z.discriminatedUnion('event', [
  ...PLAYWRIGHT_EVENTS,
  ...PAGE_EVENTS,
  ObservedHeader.extend({ event: z.literal('header') }),
])
type RunEvent = z.infer<typeof Event>
export type EventOf<Name extends RunEvent['event']> = RunEvent & { event: Name }
/** One thing that happened in a run of Playwright's test runner. */
export type PlaywrightEvent = z.infer<(typeof PLAYWRIGHT_EVENTS)[number]>
/** One thing that a page, a request or a plain script did. */
export type PageEvent = z.infer<(typeof PAGE_EVENTS)[number]>

const PAGE_EVENT_NAMES: ReadonlySet<string> = new Set(
  PAGE_EVENTS.map(({ shape }) => shape.event.value),
)

export function isPageEvent(event: RunEvent): event is PageEvent {
  return PAGE_EVENT_NAMES.has(event.event)
}

/** The event of a line, or undefined where it is none. */
export function parseRunEvent(line: string): RunEvent | undefined {
  return Event.safeParse(jsonOf(line)).data
}
