// Status pages: cards that group services, and subscribers.
import * as z from 'zod'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { Service, ServiceReference } from '../../contract/api/incident.ts'
import { day, guid, ignored, READ_ONLY } from '../../contract/api/resource.ts'
import { text } from '../../contract/schema/text.ts'

const { nameCharactersMax, cardsPerPageMax, servicesPerCardMax } = API_BOUNDS

/** Shown where an e-mail address subscribes, or is listed. */
export const EMAIL_UNSENT =
  'This version sends no e-mail to subscribers. Use an alert channel of type WEBHOOK'

/** Shown with every status page. */
export const PAGE_UNSERVED =
  'This version serves no page at `url` or `customDomain`. The definition is stored for the API'

const DefaultTheme = z.enum(['LIGHT', 'DARK', 'AUTO'])
const days = {
  created_at: day('Day of creation, UTC'),
  updated_at: day('Day of the last change, UTC').nullable().optional(),
}

/** A link that a browser may follow: http and https only, so that no page carries a script in it. */
const link = () =>
  z
    .string()
    .max(2048)
    .refine((value) => /^https?:\/\/[^\s"'<>]+$/i.test(value) && URL.canParse(value), {
      error: 'must be an http or https URL',
    })
    .meta({ format: 'uri', maxLength: 2048 })

const color = z
  .string()
  .regex(/^#(?:[0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$/, 'must be a color like #1f2937')
const colorName = z.string().regex(/^[A-Za-z][A-Za-z0-9-]{0,31}$/)
/** Colors by name, or by theme and name. */
const ThemeColors = z.record(colorName, z.union([color, z.record(colorName, color)]))

const hostname = () =>
  z
    .string()
    .max(253)
    .regex(
      /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)+$/i,
      'must be a host name',
    )
    .meta({ maxLength: 253 })

/** A group of services on a page. */
const StatusPageCard = z
  .object({
    id: guid(),
    name: z.string(),
    services: z.array(Service),
    ...days,
  })
  .meta({ id: 'StatusPageCard' })

const looks = {
  description: z.string().max(500).nullable().default(null),
  customDomain: hostname().nullable().default(null),
  themeColors: ThemeColors.nullable().default(null),
  logo: link().nullable().default(null),
  logoDark: link().nullable().default(null),
  redirectTo: link().nullable().default(null),
  favicon: link().nullable().default(null),
  defaultTheme: DefaultTheme.default('AUTO'),
}

/** A status page as it is read. */
export const StatusPage = z
  .object({
    id: guid(),
    accountId: guid(),
    name: z.string(),
    url: z.string(),
    description: z.string().nullable(),
    customDomain: z.string().nullable(),
    themeColors: ThemeColors.nullable(),
    logo: z.string().nullable(),
    logoDark: z.string().nullable(),
    redirectTo: z.string().nullable(),
    favicon: z.string().nullable(),
    defaultTheme: DefaultTheme,
    isPrivate: z.boolean(),
    version: z.int(),
    cards: z.array(StatusPageCard),
    ...days,
    warning: z.string().meta({ description: 'Why nobody can open the page' }),
  })
  .meta({ id: 'StatusPage' })

const CardInput = z.strictObject({
  name: text(nameCharactersMax),
  services: z.array(ServiceReference).max(servicesPerCardMax).default([]),
  ...READ_ONLY,
})

/** Input of a status page. `url` is its address on this platform, stored in lower case. */
export const StatusPageInput = z
  .strictObject({
    name: text(nameCharactersMax),
    url: z
      .string()
      .regex(
        /^[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/,
        'must be 1 to 63 letters, digits and -, with no - at the ends',
      )
      .transform((value) => value.toLowerCase()),
    cards: z.array(CardInput).max(cardsPerPageMax),
    ...looks,
    ...READ_ONLY,
    ...ignored('version', 'accountId', 'isPrivate', 'keys', 'incidents', 'projectBindings'),
    ...ignored('warning'),
  })
  .meta({
    id: 'StatusPageInput',
    example: {
      name: 'Acme',
      url: 'acme',
      cards: [{ name: 'Web', services: [{ id: 'b9a1c5d2-7a54-4a0b-9df1-0b8cf0a7a001' }] }],
    },
  })
export type StatusPageInput = z.infer<typeof StatusPageInput>

const SubscriptionStatus = z.enum(['PENDING', 'VERIFIED'])

/** A subscriber to the incidents of a page. */
export const Subscription = z
  .object({
    id: guid(),
    statusPageId: guid(),
    type: z.literal('EMAIL'),
    address: z.string(),
    status: SubscriptionStatus,
    email: z.string().meta({ description: 'The same as `address`' }),
    verified: z.boolean().meta({ description: 'Whether `status` is VERIFIED' }),
    created_at: days.created_at,
    updated_at: days.created_at,
    warning: z.string().meta({ description: 'Why nothing is sent to the address' }),
  })
  .meta({ id: 'StatusPageSubscription' })

/** Addresses to subscribe at once. */
export const SubscriptionsInput = z
  .strictObject({
    subscriptions: z
      .array(z.object({ type: z.literal('EMAIL'), config: z.unknown() }))
      .min(1)
      .max(API_BOUNDS.subscriptionsAtOnceMax),
    autoVerify: z.boolean().default(false),
  })
  .meta({
    id: 'StatusPageSubscriptionsInput',
    example: { subscriptions: [{ type: 'EMAIL', config: { address: 'ops@example.com' } }] },
  })

/** How many addresses were subscribed. */
export const SubscriptionsMade = z
  .object({ created: z.int(), skipped: z.int(), status: SubscriptionStatus })
  .meta({ id: 'StatusPageSubscriptionsMade' })
