// Messages between the agent and the process in which the scripts of an API monitor run. Messages of that process
// are untrusted: user code runs in it.
import * as z from 'zod'
import { ObservedHeader } from '../playwright/observed-headers.ts'

/** Names with a value each, as often as there are values. */
export type Pairs = [name: string, value: string][]

/** The request as scripts have it. A name with several values has a list of them. */
export interface ScriptRequest {
  method: string
  url: string
  body: string
  headers: Record<string, string | string[]>
  queryParameters: Record<string, string | string[]>
}

/** The answer as a tear-down script has it. */
export interface ScriptResponse {
  statusCode: number
  statusText: string
  body: string
  /** The body is only the beginning of it. */
  bodyTruncated?: true
  headers: Record<string, string | string[]>
  /** Milliseconds since the request began. */
  timings: Record<string, number>
  timingPhases: Record<string, number>
}

/** A request to the process. */
export type ScriptOrder = {
  file: string
  /** Most that it may hand back. */
  bytesMax: number
  request: ScriptRequest
} & ({ step: 'set-up' } | { step: 'tear-down'; response: ScriptResponse })

const pairs = z.array(z.tuple([z.string(), z.string()])).max(200)
const text = z.string().max(16_384)

const ScriptError = z.object({
  message: text,
  /** False where its code could not even be begun. */
  loaded: z.boolean(),
  file: z.string().max(4096).optional(),
  line: z.int().min(0).max(1e9).optional(),
  column: z.int().min(0).max(1e9).optional(),
})
/** The error that ended a script. */
export type ScriptError = z.infer<typeof ScriptError>

const SetUpDone = z.object({
  step: z.literal('set-up'),
  request: z.object({
    method: z.string(),
    url: z.string(),
    body: z.string(),
    headers: pairs,
    queryParameters: pairs,
  }),
  variables: z.record(z.string(), z.string()),
  removed: z.array(z.string()),
})
/** What a set-up script made of its request. */
export type SetUpDone = z.infer<typeof SetUpDone>

const TearDownDone = z.object({
  step: z.literal('tear-down'),
  response: z.object({
    statusCode: z.int().min(0).max(999),
    body: z.string(),
    headers: pairs,
  }),
})
export type TearDownDone = z.infer<typeof TearDownDone>

const Message = z.union([
  z.object({ step: z.enum(['ready', 'exit']) }),
  ObservedHeader.extend({ step: z.literal('header') }),
  z.object({ step: z.enum(['set-up', 'tear-down', 'crash']), error: ScriptError }),
  SetUpDone,
  TearDownDone,
])
export type ScriptMessage = z.infer<typeof Message>

export function parseScriptMessage(message: unknown): ScriptMessage | undefined {
  const parsed = Message.safeParse(message).data
  if (parsed !== undefined) return parsed
  const { step } = (message ?? {}) as { step?: unknown }
  if (step !== 'set-up' && step !== 'tear-down') return undefined
  const what = step === 'set-up' ? 'request' : 'response'
  return { step, error: { message: `its ${what} is invalid`, loaded: true } }
}
