# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of AWX's API: objects in memory, with the fields and the refusals of AWX 24.6.1. It runs no jobs.

The fields are in resources.yml. As AWX does, it ignores fields that it does not know, and refuses what awx/README.md
lists under "Limits of AWX".
"""

from __future__ import annotations

import itertools
import json
import re
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import yaml

RESOURCES = yaml.safe_load(Path(__file__).with_name("resources.yml").read_text())
TOKEN = "secret"
ROOT = "/api/v2/"
# Templates that jobs, schedules and nodes of workflows start.
UNIFIED = ("job_templates", "workflow_job_templates", "projects", "inventory_sources", "workflow_approval_templates")
# Which objects a field refers to, where its name does not say it.
REFERENCES = {
    "default_environment": "execution_environments",
    "inventory": "inventories",
    "signature_validation_credential": "credentials",
    "source_project": "projects",
    "webhook_credential": "credentials",
}
LISTS = {"galaxy_credentials": "credentials"} | dict.fromkeys(
    ("success_nodes", "failure_nodes", "always_nodes"), "workflow_job_template_nodes"
)
PYTHON_TYPES = {"boolean": bool, "integer": int, "id": int, "string": str}
# Fields of nodes and schedules that need a prompt of the template: its name differs for extra_data.
PROMPTS = ("inventory", "limit", "job_type", "job_tags", "skip_tags", "diff_mode", "verbosity", "forks", "timeout")
PROMPT_NAMES = {"job_tags": "tags"}
# AWX offers as playbooks the YAML files at these levels that have plays.
PLAY = re.compile(r"^\s*-?\s*(hosts|import_playbook|ansible\.builtin\.import_playbook):", re.MULTILINE)

Object = t.Dict[str, t.Any]


class Refused(Exception):
    def __init__(self, body: t.Any, status: int = 400) -> None:
        super().__init__(body)
        self.body, self.status = body, status


class Awx:
    """``repositories``: a folder for each address of a git repository that projects may use."""

    def __init__(self, repositories: t.Mapping[str, Path]) -> None:
        self.repositories = repositories
        self.ids = itertools.count(1)
        self.objects: t.Dict[str, t.Dict[int, Object]] = {
            name: {} for name in (*RESOURCES, "workflow_approval_templates", "instances", "project_updates")
        }
        self.surveys: t.Dict[int, Object] = {}
        self.links: t.Dict[t.Tuple[int, str], t.List[int]] = {}
        self.requests: t.List[str] = []  # that changed something
        for name in ("Machine", "Source Control", "Container Registry", "OpenShift or Kubernetes API Bearer Token"):
            self.add("credential_types", name=name, kind="ssh", managed=True)
        galaxy = self.add("credential_types", name="Ansible Galaxy/Automation Hub API Token", kind="galaxy")
        self.add("credentials", name="Ansible Galaxy", credential_type=galaxy["id"], organization=None)

    def add(self, resource: str, **fields: t.Any) -> Object:
        number = next(self.ids)
        known = RESOURCES.get(resource, {})
        defaults = {name: field.get("default") for name, field in known.get("post", {}).items()}
        url = "%s%s/%d/" % (ROOT, resource, number)
        related = {name: "%s%s/" % (url, name) for name in known.get("related", ())}
        added = {**defaults, **fields, "id": number, "url": url, "type": resource[:-1], "related": related}
        self.objects[resource][number] = {"summary_fields": {}, **added}
        return self.objects[resource][number]

    def one(self, resource: str, **fields: t.Any) -> Object:
        """The only object with these values: for the tests."""
        (found,) = self.find(resource, fields)
        return found

    def linked(self, one: Object, relation: str) -> t.List[str]:
        """The names of the objects that another is linked to: for the tests."""
        objects = self.objects[LISTS.get(relation, relation)]
        links = [objects[number] for number in self.links.get((one["id"], relation), [])]
        return [linked.get("name") or linked["identifier"] for linked in links]

    # --- Requests -----------------------------------------------------------------------------------------------------

    def request(self, method: str, path: str, query: t.Mapping[str, str], data: Object) -> t.Tuple[int, t.Any]:
        resource, *rest = path.removeprefix(ROOT).strip("/").split("/")
        if resource not in (*self.objects, "unified_job_templates"):
            raise Refused({"detail": "Not found."}, 404)
        if method != "GET":
            self.requests.append("%s %s" % (method, path))
        if not rest:
            return (201, self.create(resource, data)) if method == "POST" else (200, page(self.find(resource, query)))
        one = self.objects[resource].get(int(rest[0]))
        if one is None:
            raise Refused({"detail": "Not found."}, 404)
        if rest[1:]:
            return self.relation(method, resource, one, rest[1], data)
        if method == "PATCH":
            self.check(resource, {**one, **data}, data)
            one.update(written(resource, data))
        if resource == "project_updates":
            self.finish(one)
        return 200, one

    def find(self, resource: str, query: t.Mapping[str, t.Any]) -> t.List[Object]:
        resources = UNIFIED if resource == "unified_job_templates" else (resource,)
        objects = [one for name in resources for one in self.objects[name].values()]
        either = {name[4:]: value for name, value in query.items() if name.startswith("or__")}
        every = {name: value for name, value in query.items() if not name.startswith("or__")}
        found = [one for one in objects if all(self.has(one, *item) for item in every.items())]
        return [one for one in found if not either or any(self.has(one, *item) for item in either.items())]

    def has(self, one: Object, name: str, value: t.Any) -> bool:
        """Whether an object has a value, also of an object that it refers to, such as organization__name."""
        field, _, further = name.partition("__")
        if further:
            other = self.objects[field + "s"].get(one.get(field) or 0)
            return other is not None and self.has(other, further, value)
        return str(one.get(field)) == str(value)

    def create(self, resource: str, data: Object) -> Object:
        fields = written(resource, data)
        self.check(resource, fields, data)
        if resource == "job_templates":
            fields["organization"] = self.objects["projects"][fields["project"]]["organization"]
        if resource == "credential_types":
            fields["managed"] = False
        created = self.add(resource, **fields)
        if resource == "projects":
            update = self.add("project_updates", project=created["id"], status="pending")
            created.update(status="pending", playbooks=[], scm_revision="", summary_fields={"current_update": update})
        return created

    def finish(self, update: Object) -> None:
        """Each question about an update brings it one step further."""
        update["status"] = {"pending": "running"}.get(update["status"], "successful")
        project = self.objects["projects"][update["project"]]
        project["status"] = update["status"]
        if update["status"] == "successful":
            folder = self.repositories[project["scm_url"]]
            project.update(summary_fields={}, scm_revision="1")
            project["playbooks"] = [path.name for path in folder.glob("*.yml") if PLAY.search(path.read_text())]

    # --- What AWX refuses ---------------------------------------------------------------------------------------------

    def check(self, resource: str, fields: Object, data: Object) -> None:
        """Refuse an object with wrong fields. ``data``: those of the request."""
        errors: t.Dict[str, t.List[str]] = {}
        for name, field in RESOURCES[resource]["post"].items():
            value = fields.get(name)
            if value is None:
                if field.get("required"):
                    errors[name] = ["This field is required."]
            elif field["type"] == "choice":
                if value not in field["choices"]:
                    errors[name] = ['"%s" is not a valid choice.' % value]
            elif type(value) is not PYTHON_TYPES.get(field["type"], type(value)):
                errors[name] = ["Not a valid %s." % field["type"]]
            elif field["type"] == "id" and not self.exists(name, value):
                errors[name] = ['Invalid pk "%s" - object does not exist.' % value]
        for name, field in RESOURCES[resource]["post"].items():  # as the API stores null
            if name in data and data[name] is None and "" in field.get("choices", ()):
                data[name] = fields[name] = ""
        if errors:
            raise Refused(errors)
        if "id" not in fields and "name" in fields and self.find(resource, _identity(fields)):
            raise Refused({"__all__": ["%s with this name already exists." % resource]})
        refuse = getattr(self, "refuse_" + resource, None)
        if refuse:
            refuse(fields)

    def exists(self, field: str, number: int) -> bool:
        if field == "unified_job_template":
            return any(number in self.objects[name] for name in UNIFIED)
        return number in self.objects.get(REFERENCES.get(field, field + "s"), {number: {}})

    def refuse_job_templates(self, fields: Object) -> None:
        project = self.objects["projects"].get(fields.get("project") or 0)
        if project is None or fields.get("playbook") not in project["playbooks"]:
            raise Refused({"playbook": ["Playbook not found for project."]})

    def refuse_inventory_sources(self, fields: Object) -> None:
        project = self.objects["projects"].get(fields.get("source_project") or 0)
        if fields["source"] == "scm" and (project is None or not project["scm_type"]):
            raise Refused({"detail": "Cannot use manual project for SCM-based inventory."})

    def refuse_schedules(self, fields: Object) -> None:
        for part in ("DTSTART", "RRULE:", "INTERVAL="):
            if part not in fields["rrule"]:
                raise Refused({"rrule": ["%s required in rrule." % part]})
        self.prompts(fields)
        wrong = self.wrong_answers(fields)
        if wrong:
            raise Refused({"variables_needed_to_start": wrong})

    def refuse_workflow_job_template_nodes(self, fields: Object) -> None:
        if fields.get("unified_job_template"):
            self.prompts(fields)

    def prompts(self, fields: Object) -> None:
        rejected = self.rejected_prompts(fields)
        if rejected:
            raise Refused({name: ["Field is not configured to prompt on launch."] for name in rejected})

    def rejected_prompts(self, fields: Object) -> t.List[str]:
        """The prompts of a node or schedule that its template would ignore."""
        (template,) = self.find("unified_job_templates", {"id": fields["unified_job_template"]})
        given = [name for name in PROMPTS if fields.get(name) not in (None, "")]
        return [name for name in given if not template.get("ask_%s_on_launch" % PROMPT_NAMES.get(name, name))]

    def wrong_answers(self, fields: Object) -> t.List[str]:
        """What is wrong with the answers of a node or schedule to the survey of its template."""
        survey = self.surveys.get(fields["unified_job_template"], {}).get("spec", [])
        answers = fields.get("extra_data") or {}
        return [error for question in survey for error in wrong_answer(question, answers)]

    # --- Below an object ----------------------------------------------------------------------------------------------

    def relation(self, method: str, resource: str, one: Object, name: str, data: Object) -> t.Tuple[int, t.Any]:
        if name not in RESOURCES.get(resource, {}).get("related", ()):
            raise Refused({"detail": "Not found."}, 404)
        if name == "survey_spec":
            if method == "POST":
                self.surveys[one["id"]] = checked_survey(data)
            elif method == "DELETE":
                self.surveys.pop(one["id"], None)
            return 200, self.surveys.get(one["id"], {})
        if name == "launch":
            return self.launch(method, resource, one, data)
        if name == "create_approval_template":
            approval = self.add("workflow_approval_templates", **{"description": "", "timeout": 0, **data})
            one["unified_job_template"] = approval["id"]
            one["related"]["unified_job_template"] = approval["url"]
            return 201, approval
        links = self.links.setdefault((one["id"], name), [])
        if method == "GET":
            return 200, page([self.objects[LISTS.get(name, name)][number] for number in links])
        if data["id"] not in self.objects[LISTS.get(name, name)]:
            raise Refused({"msg": "%s not found." % name})
        if name == "credentials" and resource == "job_templates" and not data.get("disassociate"):
            types = [self.objects[name][number]["credential_type"] for number in (*links, data["id"])]
            if len(set(types)) < len(types):
                raise Refused({"error": "Cannot assign multiple credentials of one type."})
        (links.remove if data.get("disassociate") else links.append)(data["id"])
        return 204, None

    def launch(self, method: str, resource: str, one: Object, data: Object) -> t.Tuple[int, t.Any]:
        if resource == "workflow_job_templates":
            nodes = self.find("workflow_job_template_nodes", {"workflow_job_template": one["id"]})
            rejected = [node["id"] for node in nodes if self.rejected_prompts(node) or self.wrong_answers(node)]
            return 200, {"node_prompts_rejected": rejected}  # the answers of the workflow's launch may be right
        answers = data.get("extra_vars", {})
        survey = self.surveys.get(one["id"], {}).get("spec", []) if one["survey_enabled"] else []
        errors = [error for question in survey for error in wrong_answer(question, answers)]
        if method == "POST" and errors:
            raise Refused({"variables_needed_to_start": errors})
        known = {question["variable"] for question in survey}
        ignored = {} if one["ask_variables_on_launch"] else {name: answers[name] for name in answers.keys() - known}
        return 201, {"ignored_fields": {"extra_vars": ignored} if ignored else {}}


def _identity(fields: Object) -> Object:
    """Names are unique in an organization, an inventory or a workflow, and those of credentials in a type."""
    names = ("name", "organization", "inventory", "credential_type", "unified_job_template", "source_project")
    return {name: fields[name] for name in names if name in fields}


def written(resource: str, data: Object) -> Object:
    """The fields that AWX stores, whose text it strips."""
    known = {name: value for name, value in data.items() if name in RESOURCES[resource]["post"]}
    return {name: value.strip() if isinstance(value, str) else value for name, value in known.items()}


def page(objects: t.Sequence[Object]) -> Object:
    return {"count": len(objects), "next": None, "previous": None, "results": list(objects)}


def checked_survey(survey: Object) -> Object:
    for name in ("name", "description", "spec"):
        if name not in survey:
            raise Refused({"error": "Field '%s' is missing from survey spec." % name})
    for question in survey["spec"]:
        for name in ("type", "question_name", "variable", "required"):
            if name not in question:
                raise Refused({"error": "'%s' missing from survey question." % name})
        if question.get("default") is not None and wrong_answer(question, {question["variable"]: question["default"]}):
            raise Refused({"error": "Default of %s does not answer the question." % question["variable"]})
    return survey


def wrong_answer(question: Object, answers: Object) -> t.List[str]:
    variable = question["variable"]
    if variable not in answers:
        return ["'%s' value missing" % variable] if question["required"] else []  # whatever its default
    answer = answers[variable]
    if question["type"] in ("text", "textarea") and not isinstance(answer, str):
        return ["Value %s for '%s' expected to be a string." % (answer, variable)]
    if question["type"] == "integer" and type(answer) is not int:
        return ["Value %s for '%s' expected to be an integer." % (answer, variable)]
    if question["type"] == "multiplechoice" and answer not in question["choices"]:
        return ["Value %s for '%s' expected to be one of %s." % (answer, variable, question["choices"])]
    return []


def serve(awx: Awx) -> ThreadingHTTPServer:
    """A server on a free port of the loopback interface; serve_forever starts it."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            address = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            try:
                if self.headers.get("Authorization") != "Bearer " + TOKEN:
                    raise Refused({"detail": "Authentication credentials were not provided."}, 401)
                data = json.loads(self.rfile.read(length) or "{}")
                status, body = awx.request(self.command, address.path, dict(parse_qsl(address.query)), data)
            except Refused as refused:
                status, body = refused.status, refused.body
            content = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(content)))):
                self.send_header(name, value)
            self.send_header("X-API-Product-Name", "AWX")
            self.send_header("X-API-Product-Version", "24.6.1")
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = answer

        def log_message(self, *_arguments: t.Any) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)
