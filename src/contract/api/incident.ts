// Status page incidents with their services and updates in the public API: bodies of requests and responses.
import * as z from 'zod'
import { API_BOUNDS } from './bounds.ts'
import { day, guid, ignored, READ_ONLY } from './resource.ts'
import { text } from '../schema/text.ts'

export const IncidentStatus = z.enum(['INVESTIGATING', 'IDENTIFIED', 'MONITORING', 'RESOLVED'])
export type IncidentStatus = z.infer<typeof IncidentStatus>

const INCIDENT_SEVERITIES = ['CRITICAL', 'MAJOR', 'MEDIUM', 'MINOR'] as const
export const IncidentSeverity = z.enum(INCIDENT_SEVERITIES)
export type IncidentSeverity = z.infer<typeof IncidentSeverity>

const { nameCharactersMax, descriptionCharactersMax, servicesPerIncidentMax } = API_BOUNDS

/** A service of an account; incidents name the services they affect. */
export const Service = z
  .object({
    name: z.string(),
    id: guid(),
    accountId: guid(),
    created_at: day('Day of creation, UTC'),
    updated_at: day('Day of the last change, UTC').nullable().optional(),
  })
  .meta({ id: 'StatusPageService' })

/** The platform's default is the time of a request, which no document can declare. */
const publicDate = {
  format: 'date-time',
  default: '2026-02-25T10:00:00.000Z',
  description: 'Default: the time of the request; the declared one only shows the form',
} as const

/** One public update of an incident. */
export const IncidentUpdate = z
  .object({
    description: z.string(),
    status: IncidentStatus.optional(),
    publicIncidentUpdateDate: z.iso.datetime({ offset: true }).optional().meta(publicDate),
    notifySubscribers: z.boolean().optional().meta({ default: false }),
    id: guid(),
    created_at: day('Day of creation, UTC'),
  })
  .meta({ id: 'StatusPageIncidentUpdate' })
export type IncidentUpdate = z.infer<typeof IncidentUpdate>

/** An incident as it is read. */
export const Incident = z
  .object({
    name: z.string().meta({ maxLength: nameCharactersMax }),
    severity: IncidentSeverity,
    id: guid(),
    services: z.array(Service).meta({ description: 'Affected services' }),
    incidentUpdates: z.array(IncidentUpdate).meta({
      description: `The latest ${API_BOUNDS.updatesShownMax} updates, newest first`,
    }),
    lastUpdateStatus: IncidentStatus,
    duration: z.int().nullable().optional().meta({
      description:
        'Whole seconds from the first update to the resolved update that closed the incident, by public dates; null while it is open and when its first update closed it',
    }),
    created_at: day('Day of creation, UTC'),
    updated_at: day('Day of the last change, UTC').optional(),
  })
  .meta({ id: 'StatusPageIncident' })
export type Incident = z.infer<typeof Incident>

/** RFC 3339 writes four digits of a year, and an offset may lead past them. */
const LAST_INSTANT_MS = Date.parse('9999-12-31T23:59:59.999Z')

/** Body that creates or replaces an update. */
export const IncidentUpdateInput = z
  .strictObject({
    description: text(descriptionCharactersMax),
    status: IncidentStatus.optional().meta({
      description: 'Default: the status before this update',
    }),
    publicIncidentUpdateDate: z.iso
      .datetime({ offset: true })
      .refine((value) => Date.parse(value) >= 0, { error: 'must not be before 1970' })
      .refine((value) => !(Date.parse(value) > LAST_INSTANT_MS), {
        error: 'must not be after 9999 in UTC',
      })
      .optional()
      .meta(publicDate),
    notifySubscribers: z.boolean().default(false).meta({
      description: 'Notifies alert channels with `sendNotices`; no e-mail is sent',
    }),
    ...READ_ONLY,
  })
  .meta({
    id: 'StatusPageIncidentUpdateInput',
    example: { description: 'It works again.', status: 'RESOLVED' },
  })
export type IncidentUpdateInput = z.infer<typeof IncidentUpdateInput>

/** A service of the account, named by its id; the rest of its fields may be sent along. */
export const ServiceReference = z
  .strictObject({
    id: guid(),
    name: z.string().optional(),
    accountId: guid().optional(),
    ...ignored('created_at', 'updated_at'),
  })
  .meta({ id: 'StatusPageServiceReference' })
export type ServiceReference = z.infer<typeof ServiceReference>

const written = {
  name: text(nameCharactersMax),
  severity: IncidentSeverity,
  services: z.array(ServiceReference).min(1).max(servicesPerIncidentMax),
}

const EXAMPLE_SERVICE = { id: 'b9a1c5d2-7a54-4a0b-9df1-0b8cf0a7a001' }

const computed = ignored('duration', 'lastUpdateStatus')

/** Body that opens an incident, with exactly one first update. */
export const IncidentInput = z
  .strictObject({
    ...written,
    incidentUpdates: z.array(IncidentUpdateInput).min(1).max(1),
    ...READ_ONLY,
    ...computed,
  })
  .meta({
    id: 'StatusPageIncidentInput',
    example: {
      name: 'Sign-in is slow',
      severity: 'MINOR',
      services: [EXAMPLE_SERVICE],
      incidentUpdates: [{ description: 'We are investigating.', status: 'INVESTIGATING' }],
    },
  })
export type IncidentInput = z.infer<typeof IncidentInput>

const unwritten = { ...ignored('incidentUpdates'), ...READ_ONLY, ...computed }

/** Body that replaces an incident's own fields; its updates have their own operations. */
export const IncidentReplacement = z.strictObject({ ...written, ...unwritten }).meta({
  id: 'StatusPageIncidentReplacement',
  example: { name: 'Nobody can sign in', severity: 'MAJOR', services: [EXAMPLE_SERVICE] },
})

/** Body that changes some of an incident's own fields. */
export const IncidentPatch = z
  .strictObject({ ...z.object(written).partial().shape, ...unwritten })
  .meta({ id: 'StatusPageIncidentPatch', example: { severity: 'CRITICAL' } })
export type IncidentPatch = z.infer<typeof IncidentPatch>

/** Body that creates or replaces a service. */
export const ServiceInput = z
  .strictObject({ name: text(nameCharactersMax), ...ignored('accountId'), ...READ_ONLY })
  .meta({ id: 'StatusPageServiceInput', example: { name: 'Sign-in' } })
