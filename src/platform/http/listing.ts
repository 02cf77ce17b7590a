// What all listings with cursors have in common: their parameters, their page, and how a page is written.
import * as z from 'zod'
import { decodeCursor, encodeCursor, type Listing, type PageText } from '../../database/page.ts'

const LIMIT_MAX = 100
const LIMIT_DEFAULT = 20

function numberFrom1(max: number, otherwise: number, description: string) {
  const error = `must be a whole number from 1 to ${max}`
  return z
    .string()
    .regex(/^\d{1,9}$/, { error, abort: true })
    .transform(Number)
    .refine((value) => value >= 1 && value <= max, { error })
    .default(otherwise)
    .openapi({ type: 'integer', minimum: 1, maximum: max, default: otherwise, description })
}

/** `limit` and `nextId` of a listing; `nextId` is decoded to its place. */
export function pageParameters(listing: Listing) {
  return {
    limit: numberFrom1(LIMIT_MAX, LIMIT_DEFAULT, 'Entries in a page'),
    nextId: z
      .string()
      .transform((cursor, context) => {
        const place = decodeCursor(listing, cursor)
        if (place !== undefined) return place
        context.addIssue({
          code: 'custom',
          message: 'must be the nextId of an earlier page of this listing',
        })
        return z.NEVER
      })
      .optional()
      .openapi({
        type: 'string',
        description: 'The `nextId` of the page before; leave it out for the first page',
      }),
  }
}

const PAGED_LIMIT_DEFAULT = 10
const PAGE_MAX = 1_000_000

/** `limit` and `page` of a listing of the older kind, whose answer is a plain list. */
export function pagedParameters() {
  return {
    limit: numberFrom1(LIMIT_MAX, PAGED_LIMIT_DEFAULT, 'Entries in a page'),
    page: numberFrom1(PAGE_MAX, 1, 'Number of the page'),
  }
}

/** Parameters of such a listing. */
export interface PagedQuery {
  limit: number
  page: number
}

/** How many entries come before the page. */
export function offsetOf({ limit, page }: PagedQuery): number {
  return (page - 1) * limit
}

/** The answer of such a listing; `total` counts the entries of all pages. */
export function pagedAnswer(query: PagedQuery, entries: readonly unknown[], total: number) {
  const first = offsetOf(query)
  const range = entries.length === 0 ? '*' : `${first}-${first + entries.length - 1}`
  const json = JSON.stringify(entries)
  return { json, headers: { 'Content-Range': `${range}/${total}` } }
}

/** The schema of a page of `entry`. */
export function pageOf(entry: z.ZodType, id: string) {
  return z
    .object({
      length: z.int().meta({ description: 'Entries in this page, not in all' }),
      entries: z.array(entry),
      nextId: z.string().nullable().optional().meta({
        description: 'Cursor of the next page; null when there is none',
      }),
    })
    .meta({ id })
}

/** The body of a page. */
export function pageJson(listing: Listing, page: PageText): string {
  const nextId = page.next === undefined ? 'null' : `"${encodeCursor(listing, page.next)}"`
  return `{"length":${page.length},"entries":[${page.entries}],"nextId":${nextId}}`
}
