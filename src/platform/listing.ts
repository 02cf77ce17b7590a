// What all listings with cursors have in common: their parameters, their page, and how a page is written.
import * as z from 'zod'
import { decodeCursor, encodeCursor, type Listing, type Place } from '../contract/cursor.ts'

const LIMIT_MAX = 100
const LIMIT_DEFAULT = 20

/** `limit` and `nextId` of a listing; `nextId` becomes the place that it stands for. */
export function pageParameters(listing: Listing) {
  return {
    limit: z
      .string()
      .regex(/^\d{1,9}$/, { error: `must be a whole number from 1 to ${LIMIT_MAX}`, abort: true })
      .transform(Number)
      .refine((limit) => limit >= 1 && limit <= LIMIT_MAX, {
        error: `must be a whole number from 1 to ${LIMIT_MAX}`,
      })
      .default(LIMIT_DEFAULT)
      .openapi({
        type: 'integer',
        minimum: 1,
        maximum: LIMIT_MAX,
        default: LIMIT_DEFAULT,
        description: 'Entries in a page',
      }),
    nextId: z
      .string()
      .transform((cursor, context) => {
        const place = decodeCursor(listing, cursor)
        if (place !== undefined) return place
        context.addIssue({ code: 'custom', message: 'is no cursor of this listing' })
        return z.NEVER
      })
      .optional()
      .openapi({
        type: 'string',
        description: 'The `nextId` of the page before; leave it out for the first page',
      }),
  }
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

/** A page as the store gives it: entries as JSON text, and the place after the last when more follow. */
export interface Page {
  entries: string
  length: number
  next: Place | undefined
}

/** The body of a page. */
export function pageJson(listing: Listing, page: Page): string {
  const nextId = page.next === undefined ? 'null' : `"${encodeCursor(listing, page.next)}"`
  return `{"length":${page.length},"entries":[${page.entries}],"nextId":${nextId}}`
}
