// A resource of the public API: the operations that all resources have in the same shape. What they do is given
// as functions of the validated request, which answer with JSON text.
import * as z from 'zod'
import type { Listing, PageStatement } from '../../database/page.ts'
import type { Database } from '../../database/database.ts'
import { orNotFound, notFound } from './errors.ts'
import { pageJson, pageOf, pageParameters } from './listing.ts'
import { pagedAnswer, pagedParameters, type PagedQuery } from './listing.ts'
import { defineOperation } from './operation.ts'
import type { Answer, DefinedOperation, NoFields, Operation, Values } from './operation.ts'
import type { Fields } from './operation-document.ts'

/** What the operations on a resource have in common. */
interface Kind<Of extends Fields, One extends Fields> {
  tag: string
  /** The path of all of them. */
  path: string
  /** The parameters in it. */
  of?: Of
  /** The parameters in the path of one, which is one level deeper. */
  one: One
  /** What one is called: `status page`. */
  what: string
  /** One as it is read. */
  schema: z.ZodType
}

/** The request of an operation: the account, the parameters of the path, the query and the body. */
export type Asking<P extends Fields, Q extends Fields, B extends z.ZodType> = Values<P> & {
  accountId: string
  query: Values<Q>
  body: z.output<B>
}

/** What is said of an operation in addition to what follows from its kind. */
type Description<Q extends Fields, B extends z.ZodType> = Pick<
  Operation<Fields, Q, B>,
  | 'summary'
  | 'description'
  | 'action'
  | 'query'
  | 'lists'
  | 'body'
  | 'bodyShown'
  | 'conflict'
  | 'notImplemented'
>

interface PagesDescription {
  summary: string
  description?: string
  listing: Listing
  /** The id of the page's schema. */
  id: string
}

type Work<P extends Fields, Q extends Fields, B extends z.ZodType, Result> = (
  asking: Asking<P, Q, B>,
) => Promise<Result>

type Place<P extends Fields> = Pick<Operation<P, Fields, z.ZodType>, 'path' | 'params'>
type NoBody = z.ZodUndefined

/** A resource; each method defines one of its operations. */
export class Resource<One extends Fields, Of extends Fields = NoFields> {
  readonly #kind: Kind<Of, One>
  readonly #all: Place<Of>
  readonly #single: Place<One>

  constructor(kind: Kind<Of, One>) {
    const { path, of, one } = kind
    this.#kind = kind
    this.#all = { path, ...(of && { params: of }) }
    const onePath = `${path}/{${Object.keys(one).at(-1)}}`
    this.#single = { path: onePath, params: one }
  }

  /** A listing with a cursor. */
  pages(
    { listing, id, ...more }: PagesDescription,
    database: Database,
    read: PageStatement,
  ): DefinedOperation {
    const schema = pageOf(this.#kind.schema, id)
    const answers = { status: 200 as const, schema, description: 'A page' }
    const query = pageParameters(listing)
    return this.#define(
      { ...this.#all, ...more, method: 'get', query, answers },
      async ({ accountId: owner, query: { limit, nextId: after } }) => {
        const page = await read(database, { owner, limit, after })
        return pageJson(listing, page)
      },
    )
  }

  /** A listing of the older kind, with numbered pages. */
  numberedPages<Q extends Fields = NoFields>(
    description: Description<Q, NoBody>,
    work: (
      asking: Asking<Of, Q, NoBody> & { query: PagedQuery },
    ) => Promise<{ entries: readonly unknown[]; total: number }>,
  ): DefinedOperation {
    const query = { ...pagedParameters(), ...description.query } as Fields as Q
    const schema = z.array(this.#kind.schema)
    const answers = { status: 200, schema, description: 'A page', hasContentRange: true } as const
    return this.#define(
      { ...this.#all, ...description, method: 'get', query, answers },
      async (asking) => {
        const paged = asking as typeof asking & { query: PagedQuery }
        const { entries, total } = await work(paged)
        return pagedAnswer(paged.query, entries, total)
      },
    )
  }

  /** A listing of all of them. */
  list<Q extends Fields = NoFields>(
    description: Description<Q, NoBody>,
    work: Work<Of, Q, NoBody, string>,
  ): DefinedOperation {
    const schema = z.array(this.#kind.schema)
    const answers = { status: 200 as const, schema, description: 'All of them' }
    return this.#define({ ...this.#all, ...description, method: 'get', answers }, work)
  }

  /** Answers with the one that was made. */
  create<Q extends Fields = NoFields, B extends z.ZodType = NoBody>(
    { status = 201, ...description }: Description<Q, B> & { status?: 200 | 201 },
    work: Work<Of, Q, B, string | undefined>,
  ): DefinedOperation {
    return this.#one({ ...this.#all, ...description, method: 'post' }, work, status)
  }

  /** Answers with one; 404 where `work` finds none. So do `replace` and `change`. */
  read<Q extends Fields = NoFields>(
    description: Description<Q, NoBody>,
    work: Work<One, Q, NoBody, string | undefined>,
  ): DefinedOperation {
    return this.#one({ ...this.#single, ...description, method: 'get' }, work)
  }

  replace<Q extends Fields = NoFields, B extends z.ZodType = NoBody>(
    description: Description<Q, B>,
    work: Work<One, Q, B, string | undefined>,
  ): DefinedOperation {
    return this.#one({ ...this.#single, ...description, method: 'put' }, work)
  }

  change<Q extends Fields = NoFields, B extends z.ZodType = NoBody>(
    description: Description<Q, B>,
    work: Work<One, Q, B, string | undefined>,
  ): DefinedOperation {
    return this.#one({ ...this.#single, ...description, method: 'patch' }, work)
  }

  /** `work` answers whether there was one. */
  remove(
    description: Description<NoFields, NoBody>,
    work: Work<One, NoFields, NoBody, boolean>,
  ): DefinedOperation {
    const { what } = this.#kind
    const answers = { status: 204 as const, description: `The ${what} is deleted` }
    return this.#define(
      { ...this.#single, ...description, method: 'delete', answers },
      async (asking) => {
        if (!(await work(asking))) throw notFound(what)
        return undefined
      },
    )
  }

  #one<P extends Fields, Q extends Fields, B extends z.ZodType>(
    operation: Pick<Operation<P, Q, B>, 'method'> & Place<P> & Description<Q, B>,
    work: Work<P, Q, B, string | undefined>,
    status: 200 | 201 = 200,
  ): DefinedOperation {
    const { schema, what } = this.#kind
    const answers = { status, schema, description: `The ${what}` }
    return this.#define({ ...operation, answers }, async (asking) =>
      orNotFound(await work(asking), what),
    )
  }

  #define<P extends Fields, Q extends Fields, B extends z.ZodType>(
    operation: Pick<Operation<P, Q, B>, 'method' | 'answers'> & Place<P> & Description<Q, B>,
    work: Work<P, Q, B, Answer>,
  ): DefinedOperation {
    return defineOperation<P, Q, B>({
      ...(operation as Omit<Operation<P, Q, B>, 'tag' | 'answer'>),
      tag: this.#kind.tag,
      answer: ({ key: { accountId }, params, query, body }) =>
        work({ ...(params as object), accountId, query, body } as Asking<P, Q, B>),
    })
  }
}
