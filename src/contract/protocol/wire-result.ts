// Checks a result as an agent sent it. Most results are short (passed, nothing but numbers), and those are
// checked by hand: the general schema costs ten times as much as all the rest of recording one.
import { PROTOCOL_BOUNDS, type RefusalCode, WireResult } from './agent-protocol.ts'
import { AGENT_MISSED_REASONS, VERDICTS } from '../result.ts'

/** A result that may be recorded, or why it may not. */
export type CheckedResult =
  | {
      result: WireResult
      /** Details stored in addition to the numbers, as JSON text; null for a short result. */
      detail: string | null
    }
  | { code: Extract<RefusalCode, 'MALFORMED' | 'TOO_LARGE'>; message: string }

const GUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const VERDICT_SET: ReadonlySet<unknown> = new Set(VERDICTS)
const REASON_SET: ReadonlySet<unknown> = new Set(AGENT_MISSED_REASONS)
const INSTANT_MAX = 8.64e15
const DAY_MS = 86_400_000
/** Nesting depth of an observation, at most; safe for recursive functions. */
const DEPTH_MAX = 64
const MESSAGE_CHARACTERS_MAX = 200

/**
 * Checks one result. Ids become lower case, fields that this version does not know are left out, and
 * text that PostgreSQL cannot store (U+0000, half surrogate pairs) is replaced by U+FFFD.
 */
export function checkResult(value: unknown): CheckedResult {
  if (isShort(value)) return { result: value, detail: null }
  if (typeof value !== 'object' || value === null || isTooDeep(value)) {
    return malformed(`must be an object nested at most ${DEPTH_MAX} levels deep`)
  }
  const parsed = WireResult.safeParse(value)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    return malformed(`${issue?.path.map(String).join('.') ?? ''}: ${issue?.message ?? ''}`)
  }
  if (parsed.data.verdict === 'missed' && parsed.data.missedReason === undefined) {
    return malformed('missedReason: is needed with verdict missed')
  }
  return checkedResultOf(parsed.data)
}

function malformed(message: string): CheckedResult {
  const shown = message.slice(0, MESSAGE_CHARACTERS_MAX).toWellFormed().replaceAll('\0', '\uFFFD')
  return { code: 'MALFORMED', message: shown }
}

/** Fields of a short result, each with its check. */
const SHORT_FIELDS: Readonly<Record<string, (value: unknown) => boolean>> = {
  monitorId: (value) => typeof value === 'string' && GUID.test(value),
  slot: (value) => isNumberTo(value, INSTANT_MAX) && Number.isSafeInteger(value),
  verdict: (value) => VERDICT_SET.has(value),
  startedAt: (value) => isNumberTo(value, INSTANT_MAX),
  durationMs: (value) => isNumberTo(value, DAY_MS),
  attempts: (value) => isNumberTo(value, 100) && Number.isInteger(value),
  clockUncertaintyMs: (value) => isNumberTo(value, DAY_MS),
  responseTimeMs: (value) => isNumberTo(value, DAY_MS),
  missedReason: (value) => REASON_SET.has(value),
}
const REQUIRED = ['monitorId', 'slot', 'verdict', 'startedAt', 'durationMs', 'attempts'] as const

/** Whether `value` is a result with known numbers and enum values only; checks every field. */
function isShort(value: unknown): value is WireResult {
  if (typeof value !== 'object' || value === null) return false
  const fields = value as Partial<WireResult>
  for (const key of Object.keys(fields)) {
    const isGood = Object.hasOwn(SHORT_FIELDS, key) ? SHORT_FIELDS[key] : undefined
    if (isGood?.(fields[key as keyof WireResult]) !== true) return false
  }
  const isMissed = fields.verdict === 'missed'
  return (
    REQUIRED.every((key) => fields[key] !== undefined) &&
    isMissed === (fields.missedReason !== undefined)
  )
}

function isNumberTo(value: unknown, max: number): value is number {
  return typeof value === 'number' && value >= 0 && value <= max
}

/** Walks without recursion: JSON nests as deeply as a batch has bytes. */
function isTooDeep(root: object): boolean {
  let level: object[] = [root]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > DEPTH_MAX) return true
    const next: object[] = []
    for (const one of level) {
      for (const value of Object.values(one)) {
        if (typeof value === 'object' && value !== null) next.push(value as object)
      }
    }
    level = next
  }
  return false
}

function checkedResultOf(parsed: WireResult): CheckedResult {
  const result: WireResult = { ...parsed, monitorId: parsed.monitorId.toLowerCase() }
  if (result.onDemand !== undefined) result.onDemand = result.onDemand.toLowerCase()
  if (result.verdict !== 'missed') delete result.missedReason
  let detail = detailText(result)
  if (detail === null) return { result, detail }
  if (/\\u(?:0000|d[89a-f])/i.test(detail)) {
    cleanTexts(result)
    detail = detailText(result) ?? ''
  }
  const bytes = Buffer.byteLength(detail)
  if (bytes <= PROTOCOL_BOUNDS.resultBytesMax) return { result, detail }
  return {
    code: 'TOO_LARGE',
    message: `has ${bytes} bytes, at most ${PROTOCOL_BOUNDS.resultBytesMax} are kept`,
  }
}

/** Details of a result as they are stored: JSON text, or null where there are none. */
export function detailText({ failures, detail, artifacts }: WireResult): string | null {
  const parts = {
    ...(failures !== undefined && failures.length > 0 && { failures }),
    ...detail,
    ...(artifacts !== undefined && artifacts.length > 0 && { artifacts }),
  }
  return Object.keys(parts).length === 0 ? null : JSON.stringify(parts)
}

function cleanTexts(result: WireResult): void {
  if (result.failures !== undefined) result.failures = clean(result.failures)
  if (result.detail !== undefined) result.detail = clean(result.detail)
  if (result.artifacts !== undefined) result.artifacts = clean(result.artifacts)
}

/** A copy with every text and key in a form that PostgreSQL can store. */
function clean<Value>(value: Value): Value
function clean(value: unknown): unknown {
  if (typeof value === 'string') return cleanText(value)
  if (Array.isArray(value)) return value.map(clean)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [cleanText(key), clean(one)]))
}

function cleanText(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\uFFFD')
}

/** The code of a result's first failure as it is stored; an agent of another version may have its own codes. */
export function firstFailureCode({ failures }: WireResult): string | null {
  return failures?.[0]?.code.slice(0, 64) ?? null
}
