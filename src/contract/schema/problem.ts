// The one body in which the public API reports every error, and the fixed text of each status.
import * as z from 'zod'

/** Status → its fixed text in `error`. */
export const ERROR_TEXTS = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  409: 'Conflict',
  413: 'Payload Too Large',
  415: 'Unsupported Media Type',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  503: 'Service Unavailable',
} as const

/** A status that the public API answers an error with. */
export type ErrorStatus = keyof typeof ERROR_TEXTS

const statuses = Object.keys(ERROR_TEXTS).map(Number) as ErrorStatus[]

const EXAMPLES: Partial<Record<ErrorStatus, { message: string; attributes?: object }>> = {
  400: { message: 'limit: must be a whole number from 1 to 100' },
  401: { message: 'Bad Token', attributes: { error: 'Bad Token' } },
  403: { message: 'This key has no access to the account' },
  404: { message: 'No such incident' },
  409: { message: 'An incident keeps at least one update' },
  429: {
    message: 'Rate limit of 600 requests in 60 seconds is used up',
    attributes: { limit: 600, remaining: 0, windowSeconds: 60, resetSeconds: 17 },
  },
}

/** The body of an error; `attributes` stands in those of 401 and 429 only. */
export interface Problem {
  statusCode: ErrorStatus
  error: string
  message: string
  attributes?: Record<string, unknown>
}

/** The body of an error with `status`. */
export function problem(
  status: ErrorStatus,
  message: string,
  attributes?: Record<string, unknown>,
): Problem {
  const body: Problem = { statusCode: status, error: ERROR_TEXTS[status], message }
  return attributes === undefined ? body : { ...body, attributes }
}

function schemaOf(status: ErrorStatus) {
  const error = ERROR_TEXTS[status]
  const { message, attributes } = EXAMPLES[status] ?? { message: error }
  return z
    .object({
      statusCode: z.literal(status).meta({ type: 'number', enum: [status] }),
      error: z.enum([error]),
      message: z.string().optional(),
      ...(attributes !== undefined && {
        attributes: z.record(z.string(), z.unknown()).optional(),
      }),
    })
    .meta({
      id: `${error.replaceAll(' ', '')}Error`,
      example: { statusCode: status, error, message, ...(attributes && { attributes }) },
    })
}

/** Status → the schema of its error body, for the document. */
export const PROBLEM_SCHEMAS: ReadonlyMap<ErrorStatus, z.ZodType> = new Map(
  statuses.map((status) => [status, schemaOf(status)]),
)
